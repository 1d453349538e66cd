"""The interface to Hydra: typed words made into checked configurations, and into jobs."""
