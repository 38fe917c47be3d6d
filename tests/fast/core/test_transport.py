"""When a connection counts as protected, and what a refused certificate is called."""

import pytest

from onefold.core.transport import BUNDLES, distrust, is_loopback, verifying


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST.", "db.localhost", "127.0.0.1", "127.8.9.10", "::1", "/run/postgresql", ""],
)
def test_names_and_numbers_of_this_machine_are_loopback(host):
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["db.example.org", "10.0.0.5", "::2", "localhost.example.org", "notlocalhost"]
)
def test_every_other_host_is_not_loopback(host):
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (
            "[SSL: CERTIFICATE_VERIFY_FAILED] Hostname mismatch, certificate is not valid for 'x'",
            "another host",
        ),
        ("CERTIFICATE_VERIFY_FAILED: IP address mismatch", "another host name"),
        ('server certificate for "a" does not match host name "b"', "another host name"),
        ("SSL error: certificate verify failed: certificate has expired", "out of date"),
        ("SSL error: certificate verify failed", "not trusted: say ca=FILE"),
        ("Connection refused", ""),
    ],
)
def test_a_refused_certificate_is_told_from_other_errors(told, sentence):
    found = distrust(told, "say ca=FILE")

    assert sentence in found
    assert bool(found) is bool(sentence)


def decided(**given: str) -> dict[str, str]:
    return verifying(given, ["mine.crt"], "usual.pem", {"mine.crt", "usual.pem"}.__contains__)


def test_a_url_that_requires_tls_gets_a_verified_server():
    assert decided(sslmode="require") == {"sslmode": "verify-full", "sslrootcert": "mine.crt"}
    assert decided(sslmode="require", sslrootcert="ca.pem")["sslrootcert"] == "ca.pem"


def test_the_authorities_of_the_system_are_looked_up():
    assert decided(sslrootcert="system") == {"sslmode": "verify-full", "sslrootcert": "usual.pem"}
    assert verifying({"sslmode": "require"}, [], None, {BUNDLES[3]}.__contains__)["sslrootcert"] == BUNDLES[3]
    assert verifying({"sslmode": "require"}, [], None, lambda path: False)["sslrootcert"] == "system"


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer", "verify-ca", "verify-full"])
def test_other_modes_are_left_as_they_are_written(mode):
    assert decided(sslmode=mode) == {"sslmode": mode}
    assert decided(host="db") == {"host": "db"}
