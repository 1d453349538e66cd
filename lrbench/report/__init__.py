"""Reports on finished runs: their json files collected, the tables, and the summary of a run.

Reads files only; imports no torch and nothing that trains. The modules are imported one by one
(`lrbench.report.output.summary` needs no pandas), so this file names none of them.
"""

PARTS = ("main", "evidence", "cost", "pairs")  # of a report, in its order
