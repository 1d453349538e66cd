"""Checks of encoders: a string's vector is its own, and what is random comes of a generator."""
