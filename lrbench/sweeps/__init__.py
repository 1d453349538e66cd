"""Many runs: which there are, which are missing, and their way through a Hydra launcher."""
