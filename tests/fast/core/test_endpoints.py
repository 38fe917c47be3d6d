"""Endpoints: health that does not flap, a choice that always chooses, addresses checked and hidden."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.core.endpoints import (
    HEALTHS,
    Demands,
    Endpoint,
    Facts,
    Health,
    Patience,
    check_put,
    check_url,
    choose,
    complaints,
    heard,
    is_private,
    ranked,
    text_of,
    wanted,
    with_health,
)
from onefold.core.errors import Misconfigured

WSS = ("ws", "wss")


def after(results: str, patience: Patience = Patience(3, 2), health: Health = "unknown") -> Endpoint:  # noqa: B008
    """Let an endpoint go through results: + went well, - failed."""
    endpoint = Endpoint("wss://a.example", health=health)
    for at, result in enumerate(results):
        endpoint = heard(endpoint, None if result == "+" else "no answer", float(at), patience)
    return endpoint


@pytest.mark.parametrize(
    ("before", "results", "health"),
    [
        ("unknown", "", "unknown"),
        ("unknown", "+", "unknown"),
        ("unknown", "++", "healthy"),
        ("unknown", "--", "unknown"),
        ("unknown", "---", "unhealthy"),
        ("healthy", "--+--", "healthy"),
        ("healthy", "---", "unhealthy"),
        ("unhealthy", "+-+-+-", "unhealthy"),
        ("unhealthy", "-++", "healthy"),
    ],
)
def test_health_falls_after_failures_in_a_row_and_rises_after_successes_in_a_row(before, results, health):
    assert after(results, health=before).health == health


@given(
    st.sampled_from(HEALTHS),
    st.text("+-", max_size=40),
    st.builds(Patience, st.integers(1, 5), st.integers(1, 5)),
)
def test_health_changes_only_at_the_end_of_a_run_that_is_long_enough(before, results, patience):
    for length in range(len(results)):
        older, newer = (after(results[:n], patience, before) for n in (length, length + 1))
        if older.health != newer.health:
            result, needed = results[length], patience[0 if results[length] == "-" else 1]
            assert results[: length + 1].endswith(result * needed)
            assert newer.health == ("unhealthy" if result == "-" else "healthy")


@given(st.text("+-", max_size=40), st.builds(Patience, st.integers(1, 5), st.integers(1, 5)))
def test_a_long_enough_run_always_decides(results, patience):
    assert after(results + "-" * patience.failures, patience).health == "unhealthy"
    assert after(results + "+" * patience.successes, patience).health == "healthy"


def test_what_stays_as_it_is_is_written_the_same_so_that_nobody_need_write_it():
    assert after("++") == after("++++++++")


def test_a_failure_is_kept_with_its_time_and_reason_and_without_secrets():
    endpoint = heard(Endpoint("wss://ann:hunter2@a.example"), "wss://ann:hunter2@a.example said no", 5.0)

    assert endpoint.failed == 5.0
    assert "said no" in endpoint.reason
    assert "hunter2" not in endpoint.reason


def one(url: str, priority: int = 0, health: Health = "healthy", failed: float | None = None, **more: Any):
    return Endpoint(url, priority, health=health, failed=failed, **more)


@pytest.mark.parametrize(
    ("endpoints", "chosen"),
    [
        ([], None),
        ([one("a", enabled=False)], None),
        ([one("a", 2), one("b", 1)], "b"),
        ([one("a", 1, "unknown"), one("b", 2)], "b"),
        ([one("a", 1, "unhealthy"), one("b", 2, "unknown")], "b"),
        ([one("a", failed=9.0), one("b", failed=5.0), one("c", failed=7.0)], "b"),
        ([one("a", failed=9.0), one("b")], "b"),
        ([one("a", 1, "unhealthy", 9.0), one("b", 1, "unhealthy", 5.0)], "b"),
        ([one("a", 1, "unhealthy", 9.0), one("b", 2, "unhealthy", 5.0)], "a"),
        ([one("a", 1, enabled=False), one("b", 9, "unhealthy")], "b"),
    ],
)
def test_the_choice_is_by_health_then_priority_then_the_least_recently_failed(endpoints, chosen):
    best = choose(endpoints)

    assert (best and best.url) == chosen
    assert [best] == ranked(endpoints)[:1] or best is None


A, B, C = "wss://a", "wss://b", "wss://c"


@pytest.mark.parametrize(
    ("found", "demands", "complaint"),
    [
        ({A: Facts()}, Demands(), None),
        ({A: "ConnectionRefused"}, Demands(), "ConnectionRefused"),
        ({A: Facts(version=137)}, Demands(version=137), None),
        ({A: Facts(version=1)}, Demands(version=137), "it is 1, and 137 is wanted"),
        ({A: Facts(head=90), B: Facts(head=100)}, Demands(behind=10), None),
        ({A: Facts(head=89), B: Facts(head=100)}, Demands(behind=10), "its head 89 is behind 100"),
        ({A: Facts(), B: Facts(head=100)}, Demands(behind=10), "does not say how far"),
        ({A: Facts()}, Demands(behind=10), "does not say how far"),
        ({A: Facts(age=5.0)}, Demands(age=10), None),
        ({A: Facts(age=50.0)}, Demands(age=10), "50 s old"),
        ({A: Facts()}, Demands(age=10), "of unknown age"),
        # One that lies about its head must not make the others look stale, nor one of another chain.
        ({A: Facts(head=100), B: Facts(head=101), C: Facts(head=10**9)}, Demands(behind=10), None),
        ({A: Facts(1, 100), B: Facts(2, 10**9)}, Demands(version=1, behind=10), None),
    ],
)
def test_an_endpoint_must_be_there_be_the_right_one_and_be_fresh(found, demands, complaint):
    told = complaints(found, demands)

    assert set(told) == set(found)
    assert told[A] is None if complaint is None else complaint in (told[A] or "")


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "LOCALHOST.", "db.localhost", "printer.local", "vault.internal", "127.0.0.1", "127.1",
        "2130706433", "0x7f000001", "0x7f.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254",
        "100.64.0.1", "0.0.0.0", "224.0.0.1", "::1", "::", "fe80::1%eth0", "fd00::1", "::ffff:127.0.0.1",
        "2002:7f00:1::", "ff02::1",
    ],
)  # fmt: skip
def test_a_private_host_is_recognised_however_it_is_written(host):
    assert is_private(host)


@pytest.mark.parametrize(
    "host", ["example.org", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "local.example", "0xcafe.example"]
)
def test_a_public_host_is_let_through(host):
    assert not is_private(host)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://example.org", "use ws://, wss://"),
        ("example.org", "use ws://, wss://"),
        ("wss://", "names no host"),
        ("wss://[::1", "is no URL"),
        ("wss://example.org:99999", "is no URL"),
        ("wss://10.0.0.1/feed", "leads into a private network"),
        ("wss://ann:hunter2@localhost/feed", "leads into a private network"),
    ],
)
def test_an_address_that_may_not_be_used_is_refused_without_its_secrets(url, says):
    with pytest.raises(Misconfigured, match=says) as refused:
        check_url(url, WSS)
    assert "hunter2" not in str(refused.value)


def test_a_private_address_is_let_through_if_that_is_meant():
    check_url("ws://127.0.0.1:8545", WSS, private=True)
    check_url("wss://example.org/feed", WSS)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (None, "are a list"),
        ([], "are a list"),
        ([5], 'endpoint 1 has no "url"'),
        ([{"priority": 1}], 'endpoint 1 has no "url"'),
        (["wss://a.example", {"url": "wss://b.example", "prio": 1}], "endpoint 2 has 'prio'"),
        ([{"url": "wss://a.example", "priority": "1"}], "priority is a whole number"),
        ([{"url": "wss://a.example", "enabled": 1}], "enabled is true or false"),
        (["wss://a.example", "wss://a.example"], "given twice"),
        (["https://a.example"], "use ws://, wss://"),
    ],
)
def test_endpoints_that_cannot_be_read_are_refused_by_their_place(rows, says):
    with pytest.raises(Misconfigured, match=says):
        wanted(rows, WSS)


def test_endpoints_are_read_as_people_write_them():
    rows = ["wss://a.example", {"url": "env:NODE", "priority": 2, "enabled": False}]

    assert wanted(rows, WSS) == [Endpoint("wss://a.example"), Endpoint("env:NODE", 2, False)]


def test_a_secret_in_the_clear_is_not_stored():
    check_put(["wss://a.example/feed", "env:NODE", "http://127.0.0.1:8545"])
    with pytest.raises(Misconfigured, match="env:NAME") as refused:
        check_put(["wss://ann:hunter2@a.example/feed"])
    assert "hunter2" not in str(refused.value)


def test_health_is_stored_by_address_and_no_address_is():
    known = [after("---"), Endpoint("wss://ann:hunter2@b.example", 2)]
    text = json.loads(json.dumps(text_of("nodes", known)))

    assert "hunter2" not in json.dumps(text)
    assert with_health([Endpoint(one.url, one.priority) for one in known], text) == known
    assert with_health([Endpoint("wss://new.example")], text) == [Endpoint("wss://new.example")]
    assert with_health(known, None) == known
