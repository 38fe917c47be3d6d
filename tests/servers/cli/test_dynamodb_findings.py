"""What `doctor` makes of a DynamoDB table: each finding says what can be lost, and what to do."""

from typing import Any

import pytest

from onefold.cli.codes import Code
from onefold.core.entry import STATES
from onefold.core.errors import Misconfigured
from onefold.core.key import Key
from tests.fast.cli.judging import level
from tests.fast.cli.stage import Cli

pytest.importorskip("boto3", reason="boto3 is not installed: it comes with the test servers")

from onefold.cli import dynamodb_findings as judge
from onefold.stores.dynamodb import connect

NOW = 1_790_000_000.0


def expiring(status: str, attribute: str = "ttl") -> dict[str, Any]:
    return {"TimeToLiveDescription": {"TimeToLiveStatus": status, "AttributeName": attribute}}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (expiring("ENABLED"), "ok"),
        (expiring("ENABLING"), "ok"),
        ({"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}, "note"),
        (expiring("DISABLING"), "note"),
        (expiring("ENABLED", "due"), "unsafe"),
        (expiring("ENABLED", "written"), "unsafe"),
        (expiring("ENABLED", "version"), "unsafe"),
        (expiring("ENABLED", "somebody's"), "look"),
        (Misconfigured("not allowed"), "note"),
    ],
)
def test_an_expiry_by_anything_but_ours_is_found(told, expected):
    assert level(judge.expiry(told)) == expected


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({}, "ok"),
        ({"Replicas": []}, "ok"),
        ({"Replicas": [{"RegionName": "us-east-1"}]}, "unsafe"),
        ({"Replicas": [{"RegionName": "us-east-1"}], "MultiRegionConsistency": "EVENTUAL"}, "unsafe"),
        ({"Replicas": [{"RegionName": "us-east-1"}], "MultiRegionConsistency": "STRONG"}, "ok"),
    ],
)
def test_a_table_that_lags_in_another_region_is_unsafe(table, expected):
    assert level(judge.regions(table)) == expected


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"}}, "ok"),
        ({"BillingModeSummary": {"BillingMode": "PROVISIONED"}}, "note"),
        ({"ProvisionedThroughput": {"WriteCapacityUnits": 5}}, "note"),
    ],
)
def test_a_table_that_can_be_overrun_is_noted(table, expected):
    assert level(judge.capacity(table)) == expected


def test_a_table_that_can_be_deleted_by_a_slip_is_noted_with_the_command():
    assert level(judge.protection({"DeletionProtectionEnabled": True})) == "ok"
    finding = judge.protection({"TableName": "ledger", "DeletionProtectionEnabled": False})

    assert level(finding) == "note"
    assert "--table-name ledger" in finding.do


@pytest.mark.parametrize(
    ("here", "expected"),
    [
        (0.0, "ok"),
        (0.99, "ok"),
        (30.9, "ok"),
        (-30.0, "ok"),
        (32.0, "look"),
        (-31.0, "look"),
        (60.9, "look"),
        (62.0, "unsafe"),
        (-61.0, "unsafe"),
        (3600.0, "unsafe"),
    ],
)
def test_a_clock_that_is_off_is_found_before_it_is_too_late(here, expected):
    assert level(judge.clock(NOW, NOW + here, max_skew=60.0)) == expected


def test_the_emulator_is_told_from_the_real_one():
    assert judge.server({"server": "Server"}).level == "ok"
    assert "DynamoDB Local" in judge.server({"server": "Jetty(9.4.53)"}).text


@pytest.mark.store("dynamodb")
def test_a_table_on_a_server_is_judged(dynamodb_url):
    store = connect(dynamodb_url)

    found = {finding.name: finding.level for finding in judge.look(store.client)}
    store.close()

    assert found == {
        "server": "note",
        "encryption": "ok",
        "capacity": "ok",
        "regions": "ok",
        "protection": "note",
        "expiry": "ok",
        "clock": "ok",
    }


@pytest.mark.store("dynamodb")
def test_a_table_that_is_not_there_is_an_error(dynamodb_url):
    with pytest.raises(Misconfigured, match="does not exist"):
        list(judge.look(connect(dynamodb_url, create=False).client))


@pytest.mark.store("dynamodb")
def test_doctor_looks_at_the_table_and_leaves_nothing_behind(cli: Cli, dynamodb_url):
    store = connect(dynamodb_url)
    store.get([Key("charges", 1)])

    told = cli.json("doctor", dynamodb_url)

    assert told["code"] == Code.FINE
    assert [finding["name"] for finding in told["findings"]] == [
        "round trip",
        "server",
        "encryption",
        "capacity",
        "regions",
        "protection",
        "expiry",
        "clock",
        "parked",
    ]
    assert store.scan(None, STATES, False, None, 10)[0] == []
    store.close()


@pytest.mark.store("dynamodb")
def test_doctor_says_that_there_is_no_table_and_makes_none(cli: Cli, dynamodb_url):
    told = cli.json("doctor", dynamodb_url)

    [finding] = told["findings"]
    assert told["code"] == Code.UNREACHABLE
    assert "does not exist: `onefold store sql dynamodb:`" in finding["text"]
