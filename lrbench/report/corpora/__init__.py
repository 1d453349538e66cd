"""Reports of runs over a corpus: their columns are splits, and nothing is chosen by a test split.

As in `lrbench.report`, the modules are imported one by one.
"""
