"""Messages with a ledger on a server, and the stores and tables of Mnemosyne: DynamoDB and Cassandra."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pytest

from onefold.apps.messages.moving import items, move_in
from onefold.core.ports import Store
from onefold.testing.clock import FakeClock
from tests.fast.apps.test_messages import (  # noqa: F401
    file,
    test_two_nodes_with_one_processor_send_each_signal_once_and_hide_no_doubt,
)
from tests.fast.apps.test_messages_mnemosyne import (  # noqa: F401
    clock,
    nodes,
    test_a_hundred_callers_take_over_a_stale_one_once,
    test_a_hundred_parallel_callers_run_it_once_and_all_get_its_receipt,
    test_a_node_whose_clock_is_wrong_takes_nothing_from_a_living_one,
    test_a_one_shot_sending_of_a_dead_node_is_not_repeated_but_waits_for_a_decision,
    test_a_slow_node_cannot_complete_what_another_took_over,
    test_after_its_time_to_be_remembered_a_signal_runs_again,
    test_an_effect_that_is_refused_does_not_wait_out_its_lease,
    test_an_effect_that_returns_nothing_counts_as_completed,
    test_completed_and_in_progress_are_two_answers,
    test_impatient_callers_do_not_prolong_the_lease_of_a_dead_node,
    test_only_one_runs_at_a_time_though_attempts_fail,
    test_processors_are_separate_and_so_are_ids_that_look_alike,
    test_refused_attempts_leave_what_was_completed_as_it_is,
    test_whoever_waits_too_long_for_another_hears_busy_and_writes_nothing,
)
from tests.fast.apps.test_messages_moving import MS, RUNNING, typed


def on(name: str, *marks: pytest.MarkDecorator) -> object:
    return pytest.param(name, marks=[pytest.mark.store(name), *marks])


SLOW = [on("dynamodb", pytest.mark.slow), on("cassandra", pytest.mark.slow)]


@pytest.fixture(params=[on("postgresql"), *SLOW])
def store(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(params=SLOW)
def opens(request: pytest.FixtureRequest, clock: FakeClock) -> Callable[..., Store]:  # noqa: F811
    """Return what opens the store once more, as another node would, perhaps with a clock of its own."""
    url = request.getfixturevalue(f"{request.param}_url")
    module = import_module(f"onefold.stores.{request.param}")
    return lambda own=clock: module.connect(url, clock=own)


@pytest.mark.store("dynamodb")
def test_a_table_of_mnemosyne_on_dynamodb_is_read_whole_and_moved_into_another(dynamodb_url: str):
    from onefold.stores.dynamodb.address import address
    from onefold.stores.dynamodb.client import connected

    found = address(dynamodb_url)
    client = connected(found)
    keys = [("id", "HASH"), ("processorId", "RANGE")]
    client.create_table(
        TableName=f"{found.table}-signals",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
    )
    # One page has a megabyte: these need three.
    fill = "x" * 300_000
    for number in range(8):
        item = typed(f"s{number}", startedAt=MS, completedAt=MS, result=fill)
        client.put_item(TableName=f"{found.table}-signals", Item=item)
    client.put_item(TableName=f"{found.table}-signals", Item=RUNNING)
    theirs = dynamodb_url.replace(found.table, f"{found.table}-signals")
    try:
        became = move_in(items(theirs), dynamodb_url)
    finally:
        client.delete_table(TableName=f"{found.table}-signals")
        client.close()

    assert became == {"done": 8, "in-doubt": 1}
