"""Checks of mixers: each compares ways to compute the same, or what may not matter."""
