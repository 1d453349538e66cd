"""How jobs are run: through Hydra's launchers, in workers, in a queue."""
