"""What finished runs say: collected from their json files, as tables and as the end of a run.

Reads files only; imports no torch and nothing that trains. The modules are imported one by one
(`lrbench.report.output.summary` needs no pandas), so this file names none of them.
"""
