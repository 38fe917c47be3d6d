"""Where a ledger on DynamoDB is: what its URL may say, and what is wrong with others, without secrets."""

import pytest

from onefold.core.errors import Misconfigured

pytest.importorskip("boto3", reason="boto3 is not installed: it comes with the test servers")

from onefold.stores.dynamodb import ddl
from onefold.stores.dynamodb.address import Address, address

LOCAL = "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("dynamodb://eu-central-1/onefold", Address("eu-central-1", "onefold")),
        ("dynamodb://local/a.b_c-9", Address("local", "a.b_c-9")),
        (f"dynamodb://local/onefold?endpoint={LOCAL}", Address("local", "onefold", LOCAL)),
        (
            "dynamodb://local/onefold?endpoint=http%3A%2F%2Fx%3A1%2F",
            Address("local", "onefold", "http://x:1/"),
        ),
        ("dynamodb://local/onefold?max_skew=5s", Address("local", "onefold", None, 5.0)),
        ("dynamodb://local/onefold?max_skew=2.5", Address("local", "onefold", None, 2.5)),
        ("dynamodb://local/onefold?max_skew=0", Address("local", "onefold", None, 0.0)),
    ],
)
def test_a_url_names_a_region_and_a_table(url, expected):
    assert address(url) == expected


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("dynamodb:", "is no region"),
        ("dynamodb:///onefold", "is no region"),
        ("dynamodb://eu central/onefold", "is no region"),
        ("dynamodb://EU-CENTRAL-1/onefold", "is no region"),
        ("dynamodb://eu-central-1", "is no table"),
        ("dynamodb://eu-central-1/ab", "3 to 255 letters"),
        ("dynamodb://eu-central-1/a/b", "is no table"),
        ("dynamodb://eu-central-1/onefold#x", "unknown option"),
        ("dynamodb://eu-central-1/onefold?region=x", "endpoint and max_skew are known"),
        ("dynamodb://eu-central-1/onefold?max_skew=1s&max_skew=2s", "one twice"),
        ("dynamodb://eu-central-1/onefold?max_skew=soon", "max_skew"),
        ("dynamodb://eu-central-1/onefold?max_skew=-1", "max_skew"),
        ("dynamodb://eu-central-1/onefold?max_skew=", "max_skew"),
        ("dynamodb://eu-central-1/onefold?endpoint=localhost:8000", "names no server"),
        ("dynamodb://eu-central-1/onefold?endpoint=ftp://x", "names no server"),
        ("dynamodb://eu-central-1/onefold?endpoint=http://x:port", "names no server"),
        ("dynamodb://eu-central-1/onefold?endpoint=http://x/path", "names no server"),
        ("dynamodb://eu-central-1/onefold?endpoint=", "names no server"),
        ("dynamodb://[/onefold", "cannot be read"),
    ],
)
def test_a_url_that_names_none_is_refused_with_a_reason(url, reason):
    with pytest.raises(Misconfigured, match=reason):
        address(url)


@pytest.mark.parametrize(
    "url",
    [
        "dynamodb://AKIAHUSH:hush@eu-central-1/onefold",
        "dynamodb://eu-central-1/onefold?endpoint=http://hush:hush@x",
        "dynamodb://eu-central-1/onefold?secret=hush",
    ],
)
def test_credentials_have_no_place_in_a_url_and_are_not_repeated(url):
    with pytest.raises(Misconfigured) as raised:
        address(url)

    assert "hush" not in str(raised.value).lower()


@pytest.mark.parametrize(
    ("endpoint", "local"),
    [
        (None, False),
        ("http://localhost:8000", True),
        ("http://127.0.0.1", True),
        ("http://127.8.9.1:1", True),
        ("http://[::1]:8000", True),
        ("https://dynamodb.eu-central-1.amazonaws.com", False),
        ("http://10.0.0.1:8000", False),
        ("http://localhost.example.org", False),
    ],
)
def test_only_a_server_on_this_machine_is_local(endpoint, local):
    assert Address("x1", "onefold", endpoint).is_local is local


def test_people_are_told_which_table_is_meant():
    assert address("dynamodb://eu-central-1/onefold").name == "the dynamodb table onefold at eu-central-1"
    assert address(f"dynamodb://x1/onefold?endpoint={LOCAL}").name.endswith("onefold at 127.0.0.1:8000")


def test_the_printed_commands_make_the_table_that_the_store_wants():
    text = ddl()

    assert text.count("aws dynamodb create-table") == 1
    assert '"IndexName": "onefold_open_1"' in text
    assert "AttributeName=ttl" in text
