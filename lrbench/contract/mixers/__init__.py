"""Checks of mixers: equal results of all modes, and independence of what may have no effect."""
