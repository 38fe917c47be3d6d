"""Mail over real sockets: the transports of the system begin TLS here, not those of the virtual network."""

from __future__ import annotations

import asyncio

import pytest

from tests.fast.sinks.test_smtp import (
    Scripted,
    mailed,
    test_a_name_that_cannot_be_one_was_certainly_not_asked,  # noqa: F401  (by the resolver of the system)
)
from tests.servers.stores.tls import AUTHORITY


@pytest.mark.parametrize("scheme", ["smtps", "smtp", "smtp+plain"])
def test_a_mail_arrives_over_real_sockets(scheme: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY))
    server = Scripted(at_once=scheme == "smtps", offers=["STARTTLS"])

    assert asyncio.run(mailed(server, scheme))["said"] == "taken"
    assert bool(server.shows(encrypted=True)) == (scheme != "smtp+plain")
    assert len(server.texts) == 1
