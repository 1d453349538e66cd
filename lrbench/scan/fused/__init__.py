"""Scans as one GPU kernel each, written in triton; `algorithms/fused.py` says what they cover."""
