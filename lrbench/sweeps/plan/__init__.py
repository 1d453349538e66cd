"""The plan of a sweep, its progress, and its messages."""
