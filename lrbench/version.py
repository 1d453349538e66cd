"""The version of the package, which files of runs and certificates name."""

__version__ = "0.1.0"
