"""Hydra at the edge: from the words a user typed to checked configurations, and to jobs."""
