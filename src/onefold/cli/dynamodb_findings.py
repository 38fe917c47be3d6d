"""What `doctor` asks of a DynamoDB table, and what it makes of the answers: what can be lost, and what to do.

`look` asks; everything else is a pure function over what AWS said. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from onefold.cli.findings import Finding, Level, encryption, worker_clock
from onefold.core.entry import FIELDS
from onefold.core.errors import OnefoldError
from onefold.core.story import span
from onefold.runtime import current
from onefold.stores.dynamodb.items import LINGER
from onefold.stores.dynamodb.requests import Outcome, Request
from onefold.stores.dynamodb.schema import EXPIRY

Told = Mapping[str, Any]
"""A table, as AWS describes it."""

OURS = {*FIELDS, "due", "open", "scope", "id"}
"""Attributes that entries have, none of which may be what DynamoDB expires them by."""


def look(client: Any) -> Iterator[Finding]:
    """Ask AWS, through the store's own client, and judge what it says."""
    named = {"TableName": client.address.table}
    described, expires = client.execute_many(
        [Request("describe_table", named), Request("describe_time_to_live", named)]
    )
    if isinstance(described, OnefoldError):
        raise described
    table, headers = described["Table"], described["ResponseMetadata"]["HTTPHeaders"]
    yield server(headers)
    yield transport(client.endpoint())
    yield capacity(table)
    yield regions(table)
    yield protection(table)
    yield expiry(expires)
    if "date" in headers:
        told = parsedate_to_datetime(headers["date"]).timestamp()
        yield clock(told, current().time(), client.address.max_skew)


def server(headers: Mapping[str, str]) -> Finding:
    """Say whether it is AWS that answers. DynamoDB Local is built on Jetty; neither tells its version."""
    if not headers.get("server", "").startswith("Jetty"):
        return Finding("server", "ok", "DynamoDB")
    lost = "one process on one disk keeps everything: it goes with them"
    return Finding(
        "server", "note", "DynamoDB Local, which is made for tests", lost, "use AWS's own for work"
    )


def transport(endpoint: str) -> Finding:
    """Judge how requests are protected; boto3 verifies every https:// endpoint."""
    split = urlsplit(endpoint)
    do = "write endpoint=https://… into the URL, or leave endpoint out: AWS's own is https://"
    return encryption([split.hostname or ""], "verified" if split.scheme == "https" else "plain", do)


def capacity(table: Told) -> Finding:
    """Judge whether the table can be overrun."""
    if table.get("BillingModeSummary", {}).get("BillingMode") == "PAY_PER_REQUEST":
        return Finding("capacity", "ok", "on demand")
    provisioned = table.get("ProvisionedThroughput", {})
    units = f"{provisioned.get('WriteCapacityUnits', '?')} writes/s"
    lost = "nothing, but beyond that claims are refused; a claim and its end take four writes, with the index"
    return Finding("capacity", "note", f"provisioned, {units}", lost, "billing on demand, or auto scaling")


def regions(table: Told) -> Finding:
    """Judge whether one key can be claimed in two places."""
    replicas = [each["RegionName"] for each in table.get("Replicas", [])]
    if not replicas:
        return Finding("regions", "ok", "one: a claim has one winner")
    if table.get("MultiRegionConsistency") == "STRONG":
        return Finding("regions", "ok", f"strongly consistent with {', '.join(replicas)}")
    return Finding(
        "regions",
        "unsafe",
        f"replicated to {', '.join(replicas)}, a moment after each answer",
        "workers in two regions can both win a claim: effects run twice, and the later write wins",
        "let all workers use one region, or make it a global table with strong consistency",
    )


def protection(table: Told) -> Finding:
    """Judge whether the ledger can be deleted by a slip."""
    if table.get("DeletionProtectionEnabled"):
        return Finding("protection", "ok", "the table cannot be deleted by a slip")
    name = table.get("TableName", "TABLE")
    return Finding(
        "protection",
        "note",
        "deletion protection is off",
        "whoever may delete tables can delete what was done, and it would be done again",
        f"aws dynamodb update-table --table-name {name} --deletion-protection-enabled",
    )


def expiry(told: Outcome) -> Finding:
    """Judge what DynamoDB removes by itself."""
    if not isinstance(told, dict):
        return Finding("expiry", "note", f"not known: {told}", "", "allow dynamodb:DescribeTimeToLive")
    setting = told["TimeToLiveDescription"]
    state, attribute = setting["TimeToLiveStatus"], setting.get("AttributeName", "")
    if state in ("DISABLED", "DISABLING"):
        lost = "nothing: what is done and forgotten only takes room"
        do = f"let DynamoDB expire entries by {EXPIRY}, or onefold store purge now and then"
        return Finding("expiry", "note", "DynamoDB removes nothing by itself", lost, do)
    if attribute == EXPIRY:
        text = f"DynamoDB removes what is done, {span(LINGER)} or more after it is forgotten"
        return Finding("expiry", "ok", text)
    level: Level = "unsafe" if attribute in OURS else "look"
    lost = "open claims and receipts may be swept away: effects run twice" if attribute in OURS else "nothing"
    do = f"expire entries by {EXPIRY} and by nothing else: `onefold store sql dynamodb:` prints how"
    return Finding("expiry", level, f"DynamoDB removes entries by {attribute!r}, not by {EXPIRY}", lost, do)


def clock(server: float, here: float, max_skew: float) -> Finding:
    """Judge this machine's clock by AWS's, which tells whole seconds."""
    apart = max(abs(server + 0.5 - here) - 0.5, 0.0)
    return worker_clock(apart if here > server else -apart, here, max_skew, "AWS's")
