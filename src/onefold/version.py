"""The version of this package, in the one place that the build, the commands and the docs read.

It must import nothing: the build reads it as text.
"""

__version__ = "0.1.0"
