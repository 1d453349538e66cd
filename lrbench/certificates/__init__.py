"""Answers about all strings: the shortest one a model gets wrong, or a proof for every length."""
