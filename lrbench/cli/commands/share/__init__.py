"""Commands that carry results to others."""
