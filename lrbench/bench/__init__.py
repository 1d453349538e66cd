"""Measurements of speed and memory: `lrbench bench`. Nothing of a run depends on this."""
