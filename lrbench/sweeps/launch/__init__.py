"""The launch of a sweep's jobs: through Hydra's launchers, in workers, in a queue."""
