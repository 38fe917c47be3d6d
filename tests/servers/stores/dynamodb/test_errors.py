"""What the errors of DynamoDB and boto3 mean: not done, perhaps done, or never to be done; and no secrets."""

import pytest

from onefold.core.errors import Locked, Misconfigured, OnefoldError, Unanswered, Unreachable

pytest.importorskip("boto3", reason="boto3 is not installed: it comes with the test servers")

from botocore import exceptions as botocore

from onefold.stores.dynamodb.errors import NoTable, sorted_out
from onefold.stores.dynamodb.requests import Refusal

NAME = "the dynamodb table ledger at eu-central-1"


def from_server(code: str, status: int = 400, message: str = "because", **more: object) -> Exception:
    told = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    raised: Exception = botocore.ClientError({**told, **more}, "PutItem")
    return raised


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("ResourceNotFoundException", NoTable),
        ("AccessDeniedException", Misconfigured),
        ("UnrecognizedClientException", Misconfigured),
        ("InvalidClientTokenId", Misconfigured),
        ("ExpiredTokenException", Misconfigured),
        ("MissingAuthenticationTokenException", Misconfigured),
        ("InvalidSignatureException", Misconfigured),
        ("IncompleteSignatureException", Misconfigured),
        ("SignatureDoesNotMatch", Misconfigured),
        ("OptInRequired", Misconfigured),
        ("ValidationException", Misconfigured),
        ("SerializationException", Misconfigured),
        ("ProvisionedThroughputExceededException", Unreachable),
        ("ThrottlingException", Unreachable),
        ("RequestLimitExceeded", Unreachable),
        ("LimitExceededException", Unreachable),
        ("ResourceInUseException", Unreachable),
        ("TransactionConflictException", Locked),
        ("ReplicatedWriteConflictException", Locked),
        ("SomethingNew", Unreachable),
    ],
)
def test_what_a_server_refuses_was_not_done(code, kind):
    told = sorted_out(from_server(code), NAME)

    assert type(told) is kind
    assert str(told).startswith(NAME)


@pytest.mark.parametrize("code", ["InternalServerError", "ServiceUnavailable", "ThrottlingException", ""])
@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_what_a_server_failed_at_may_have_been_done(code, status):
    assert type(sorted_out(from_server(code, status), NAME)) is Unanswered


def test_an_answer_without_a_status_may_have_been_done():
    assert type(sorted_out(botocore.ClientError({}, "PutItem"), NAME)) is Unanswered


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (botocore.EndpointConnectionError(endpoint_url="http://x"), Unreachable),
        (botocore.ConnectTimeoutError(endpoint_url="http://x"), Unreachable),
        (botocore.ProxyConnectionError(proxy_url="http://x"), Unreachable),
        (botocore.SSLError(endpoint_url="http://x", error="CERTIFICATE_VERIFY_FAILED"), Misconfigured),
        (botocore.SSLError(endpoint_url="http://x", error="EOF"), Unanswered),
        (botocore.ReadTimeoutError(endpoint_url="http://x"), Unanswered),
        (botocore.ConnectionClosedError(endpoint_url="http://x"), Unanswered),
        (botocore.HTTPClientError(error="x"), Unanswered),
        (botocore.ResponseStreamingError(error="x"), Unanswered),
        (botocore.IncompleteReadError(actual_bytes=1, expected_bytes=2), Unanswered),
        (botocore.ChecksumError(checksum_type="crc32", expected_checksum=1, actual_checksum=2), Unanswered),
        (botocore.NoCredentialsError(), Misconfigured),
        (botocore.PartialCredentialsError(provider="env", cred_var="secret"), Misconfigured),
        (botocore.ProfileNotFound(profile="x"), Misconfigured),
        (botocore.UnauthorizedSSOTokenError(), Misconfigured),
        (botocore.CredentialRetrievalError(provider="x", error_msg="y"), Misconfigured),
        (RuntimeError("nobody foresaw it"), Unanswered),
        (ValueError("a body that is no JSON"), Unanswered),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.__name__,
)
def test_what_the_client_raises_is_sorted_by_whether_it_had_sent(error, kind):
    assert type(sorted_out(error, NAME)) is kind


@pytest.mark.parametrize("item", [None, {"id": {"B": b"x"}}])
def test_a_condition_that_did_not_hold_is_an_answer(item):
    more = {"Item": item} if item else {}

    assert sorted_out(from_server("ConditionalCheckFailedException", **more), NAME) == Refusal(item)


def test_sentences_name_the_next_command_and_no_key():
    message = "User arn:aws:iam::1:user/x with key AKIAIOSFODNN7EXAMPLE is not authorized"

    told = str(sorted_out(from_server("AccessDeniedException", message=message), NAME))

    assert "AKIAIOSFODNN7EXAMPLE" not in told
    assert "`aws sts get-caller-identity`" in told


def test_every_sentence_is_one_line_and_ends():
    told = sorted_out(from_server("ValidationException", message="One\n\ttwo. " * 100), NAME)

    assert isinstance(told, OnefoldError)
    assert "\n" not in str(told)
    assert len(str(told)) < 400
