"""Whole applications in simulated time: real pipelines, several workers, and stand-ins that misbehave.

For our own use, not in the wheel. `./dev sim apps 1000` runs it.
"""
