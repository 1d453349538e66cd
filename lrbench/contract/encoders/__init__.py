"""Checks of encoders: no effect of other strings on a string's vector, and randomness by seed."""
