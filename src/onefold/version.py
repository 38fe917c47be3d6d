"""The version of this package, in the one place that the build, the commands and the docs read. It imports nothing."""

__version__ = "0.1.0"
