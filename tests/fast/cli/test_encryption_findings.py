"""What `doctor` makes of a connection that others on the network could read or answer."""

import pytest

from onefold.cli.findings import encryption
from tests.fast.cli.judging import assert_bad
from tests.servers.stores.tls import AUTHORITY


def test_tls_that_is_verified_is_well():
    assert encryption(["db.example.org"], "verified", "").level == "ok"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "/run/mysqld/mysqld.sock"])
def test_what_stays_inside_of_the_machine_needs_no_tls(host):
    assert encryption([host], "plain", "").level == "ok"


def test_a_server_elsewhere_without_tls_is_reported():
    finding = encryption(["127.0.0.1", "db.example.org"], "plain", "write rediss://")

    assert_bad(finding, "look", "cross the network to db.example.org in plain text")
    assert finding.do == "write rediss://"


def test_tls_to_anybody_is_reported():
    assert_bad(encryption(["10.0.0.5"], "encrypted", "verify it"), "look", "nobody checks")


@pytest.mark.parametrize(
    ("url", "level", "do"),
    [
        ("redis://db.example.org", "look", "rediss://"),
        ("rediss://db.example.org", "ok", ""),
        ("redis://127.0.0.1", "ok", ""),
    ],
)
def test_a_redis_is_judged_by_its_scheme(url, level, do):
    pytest.importorskip("redis", reason="redis is not installed: it comes with the test servers")
    from onefold.cli.redis_findings import transport
    from onefold.stores.redis.address import address

    finding = transport(address(url))

    assert finding.level == level
    assert do in finding.do


@pytest.mark.parametrize(
    ("url", "level", "do"),
    [
        ("mariadb://db.example.org/shop", "look", "?ca=FILE"),
        ("mariadb://db.example.org/shop?ca=system", "ok", ""),
        ("mariadb://db.example.org/shop?socket=/run/mysqld.sock", "ok", ""),
    ],
)
def test_a_mariadb_is_judged_by_its_options(url, level, do):
    pytest.importorskip("pymysql", reason="PyMySQL is not installed: it comes with the test servers")
    from onefold.cli.mariadb_findings import transport
    from onefold.stores.mariadb.address import address

    finding = transport(address(url))

    assert finding.level == level
    assert do in finding.do


@pytest.mark.parametrize(
    ("url", "level", "do"),
    [
        ("mongodb://db.example.org", "look", "tls=true"),
        ("mongodb://localhost,db.example.org", "look", "tls=true"),
        ("mongodb://db.example.org/?tls=true", "ok", ""),
        ("mongodb://db.example.org/?ssl=true", "ok", ""),
        (f"mongodb://db.example.org/?tlsCAFile={AUTHORITY}", "ok", ""),
        ("mongodb://db.example.org/?tls=true&tlsInsecure=true", "look", "leave tlsInsecure"),
        ("mongodb://db.example.org/?tls=true&tlsAllowInvalidHostnames=true", "look", "leave tlsInsecure"),
        ("mongodb+srv://db.example.org", "ok", ""),
        ("mongodb+srv://db.example.org/?tls=false", "look", "tls=true"),
        ("mongodb+srv://db.example.org/?tlsInsecure=true", "look", "leave tlsInsecure"),
    ],
)
def test_a_mongodb_is_judged_by_its_options(url, level, do):
    pytest.importorskip("pymongo", reason="pymongo is not installed: it comes with the test servers")
    from onefold.cli.mongodb_findings import transport
    from onefold.stores.mongodb.address import address

    finding = transport(address(url))

    assert finding.level == level
    assert do in finding.do


@pytest.mark.parametrize(
    ("endpoint", "level"),
    [
        ("https://dynamodb.eu-central-1.amazonaws.com", "ok"),
        ("http://127.0.0.1:8000", "ok"),
        ("http://dynamodb.example.org:8000", "look"),
    ],
)
def test_a_dynamodb_is_judged_by_its_endpoint(endpoint, level):
    pytest.importorskip("boto3", reason="boto3 is not installed: it comes with the test servers")
    from onefold.cli.dynamodb_findings import transport

    assert transport(endpoint).level == level


def test_a_cassandra_elsewhere_needs_a_tunnel():
    pytest.importorskip("cassandra", reason="cassandra-driver is not installed")
    from onefold.cli.cassandra_findings import transport
    from onefold.stores.cassandra.address import address

    assert_bad(transport(address("cassandra://db.example.org/shop")), "look", "tunnel")


@pytest.mark.parametrize(
    ("protection", "level"), [("plain", "look"), ("encrypted", "look"), ("verified", "ok")]
)
def test_a_postgresql_is_judged_by_its_connection(protection, level):
    pytest.importorskip("psycopg", reason="psycopg is not installed: it comes with the test servers")
    from onefold.cli.postgresql_findings import transport

    finding = transport("db.example.org", protection)

    assert finding.level == level
    assert level == "ok" or "sslmode=verify-full" in finding.do
