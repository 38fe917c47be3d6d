"""Collects listings from sites, keeps them in your tables, and tells each user of each match, once.

Four pipelines over one SQL database: a collector, a processor, a notifier and a cleaner.
"""

from onefold.apps.listings.pipeline import Settings, pipelines

__all__ = ["Settings", "pipelines"]
