"""Protects the sending of a message per (id, processor), across any number of nodes.

Signals come as JSON lines or from a source of yours; each is sent once by mail, webhook, command or function
of yours. Nodes that share a store and a processor id share the work.
"""

from onefold.apps.messages.pipeline import Settings, pipelines

__all__ = ["Settings", "pipelines"]
