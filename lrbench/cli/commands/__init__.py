"""The commands, a file each; what needs torch or Hydra is imported when a command runs."""
