"""Choosing settings: the same small search for every model, by validation strings."""
