"""Corpora: labelled strings in fixed splits, made once, kept on disk, read through memory maps."""
