"""Failures of access are told from bad content, whichever library raised them; they quarantine nothing."""

from __future__ import annotations

import errno
import ftplib
import os
import socket
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from http.client import BadStatusLine, IncompleteRead
from typing import Any, ClassVar
from urllib.parse import quote
from zipfile import BadZipFile

import grpc
import pyarrow as pa
import pytest
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ServiceRequestError
from botocore.exceptions import ClientError, EndpointConnectionError, IncompleteReadError, NoCredentialsError
from google.auth.exceptions import RefreshError
from py4j.protocol import Py4JNetworkError
from pyarrow.flight import FlightUnauthenticatedError, FlightUnauthorizedError, FlightUnavailableError
from pyspark.errors import PySparkAttributeError
from pyspark.errors.exceptions.connect import SparkConnectException
from s3fs.errors import translate_boto_error
from sqlalchemy.exc import OperationalError

from flip27_source.access_errors import (
    access_error_of_spark,
    cause_of_failed_access,
    is_of_a_stop,
    is_of_reading,
    without_frames,
)
from flip27_source.errors import AccessError, SplitReadError
from flip27_source.reader import SplitReader
from flip27_source.testing import MicroBatchEngine
from tests.quick_moto import Application
from tests.s3_server import new_bucket, s3_endpoint
from tests.toy_sources import FEEDS, Feed, Item, items


def of_aws(code: str, status: int = 400) -> Exception:
    answer: Any = {
        "Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}
    }  # fmt: skip
    return translate_boto_error(ClientError(answer, "GetObject"))


class AnsweredError(Exception):
    """An error of an HTTP library."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


def of_azure(kind: type[HttpResponseError], status: int, message: str = "no") -> Exception:
    error = kind(message)
    error.status_code = status
    return error


def of_grpc(status: grpc.StatusCode) -> Exception:
    error = grpc.RpcError()
    error.code = lambda: status
    return error


def of_sqlite(sql: str) -> Exception:
    with closing(sqlite3.connect(":memory:")) as database, pytest.raises(sqlite3.OperationalError) as caught:
        database.execute(sql)
    return caught.value


def rethrown(first: Exception) -> Exception:
    """An error of ours that replaces one whose text may contain credentials."""
    try:
        try:
            raise first
        except Exception:  # noqa: BLE001 - as code that masks errors does
            raise SplitReadError("a cannot be read") from None
    except SplitReadError as error:
        return error


def while_handling(
    handled: Exception, error: Exception, *, of: Exception | None = None, hides: bool = False
) -> Exception:
    """An error that is raised in an except block, perhaps from a cause, or from None."""
    error.__context__, error.__cause__, error.__suppress_context__ = handled, of, hides
    return error


ACCESS: dict[str, tuple[Exception, str]] = {
    "expired token of AWS": (of_aws("ExpiredToken"), "the credentials have expired"),
    "expired SAS of Azure": (
        of_azure(ClientAuthenticationError, 403, "Signature not valid in the specified time frame"),
        "the credentials have expired",
    ),
    "refused refresh of Google": (RefreshError("invalid_grant: Token has been expired"), "have expired"),
    "unknown key of AWS": (of_aws("InvalidAccessKeyId", 403), "credentials are missing or not accepted"),
    "no credentials": (NoCredentialsError(), "credentials are missing or not accepted"),
    "HTTP 401": (AnsweredError(401), "credentials are missing or not accepted"),
    "denied by AWS": (of_aws("AccessDenied", 403), "permission is denied"),
    "denied by a disk": (PermissionError(errno.EACCES, "Permission denied"), "permission is denied"),
    "HTTP 403": (AnsweredError(403), "permission is denied"),
    "throttled by AWS": (of_aws("SlowDown", 503), "the server is overloaded or fails"),
    "HTTP 429": (AnsweredError(429), "the server is overloaded or fails"),
    "HTTP 503 of Azure": (of_azure(HttpResponseError, 503), "the server is overloaded or fails"),
    "time-out": (TimeoutError("timed out"), "the server cannot be reached"),
    "time-out of asyncio": (TimeoutError(), "the server cannot be reached"),
    "connection reset": (ConnectionResetError(), "the server cannot be reached"),
    "unknown host": (socket.gaierror(-2, "Name or service not known"), "the server cannot be reached"),
    "no endpoint of AWS": (EndpointConnectionError(endpoint_url="http://x"), "the server cannot be reached"),
    "no endpoint of Azure": (ServiceRequestError("no"), "the server cannot be reached"),
    "stale mount": (OSError(errno.ESTALE, "Stale file handle"), "the server cannot be reached"),
    "error of Java that libhdfs does not map": (
        OSError(255, "HDFS pread failed. Detail: [errno 255] Unknown error 255"),
        "the server cannot be reached",
    ),
    "error of NFS that Python does not name": (OSError(524, "Unknown error 524"), "the server cannot be"),
    "full disk": (OSError(errno.ENOSPC, "No space left on device"), "the disk is full"),
    "full quota": (OSError(errno.EDQUOT, "Disk quota exceeded"), "the disk is full"),
    "too many files": (OSError(errno.EMFILE, "Too many open files"), "too many files are open"),
    "memory": (MemoryError(), "there is not enough memory"),
    **{
        name: (OSError(getattr(errno, name), os.strerror(getattr(errno, name))), what)
        for name, what in {
            "EUCLEAN": "the disk is full", "ENOMEDIUM": "the disk is full", "EAGAIN": "overloaded",
            "ENOLINK": "cannot be reached", "EKEYEXPIRED": "have expired",
            "ENOKEY": "credentials are missing",
        }.items()
        if hasattr(errno, name)
    },
    **{
        code: (of_aws(code), what)
        for code, what in {
            "AccessDeniedException": "permission is denied",
            "KMS.DisabledException": "permission is denied",
            "ProvisionedThroughputExceededException": "overloaded",
            "RequestLimitExceeded": "overloaded",
            "RequestTimeout": "overloaded",
            "KMSThrottlingException": "overloaded",
            "IncompleteSignatureException": "credentials are missing",
            "MissingAuthenticationTokenException": "credentials are missing",
        }.items()
    },
    "no answer of Flight": (FlightUnavailableError("no"), "cannot be reached"),
    "login refused by Flight": (FlightUnauthenticatedError("no"), "credentials are missing"),
    "denied by Flight": (FlightUnauthorizedError("no"), "permission is denied"),
    "login refused by FTP": (ftplib.error_perm("530 Login incorrect."), "credentials are missing"),
    "busy FTP server": (ftplib.error_temp("421 Too many connections."), "overloaded"),
    "no answer of gRPC": (of_grpc(grpc.StatusCode.UNAVAILABLE), "cannot be reached"),
    "denied by gRPC": (of_grpc(grpc.StatusCode.PERMISSION_DENIED), "permission is denied"),
    "file that SQLite cannot open": (of_sqlite("ATTACH '/no/such/folder/a.db' AS a"), "the disk is full"),
    "half an answer": (IncompleteRead(b""), "the server cannot be reached"),
    "no answer of HTTP": (BadStatusLine(""), "the server cannot be reached"),
    "half an answer of AWS": (
        IncompleteReadError(actual_bytes=1, expected_bytes=2),
        "the server cannot be reached",
    ),
    "threads": (RuntimeError("can't start new thread"), "no further thread or process can be started"),
    "disk, of Arrow": (OSError("IOError: Input/output error"), "the disk is full"),
    "server, of Arrow": (
        OSError("AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 28"),
        "the server cannot be reached",
    ),
    "denied by AWS, of Arrow": (OSError("AWS Error ACCESS_DENIED during GetObject"), "permission is denied"),
    "HTTP 503, of Arrow": (OSError("AWS Error UNKNOWN (HTTP status 503) during GetObject"), "overloaded"),
    "package": (ModuleNotFoundError("No module named 'fastavro'"), "a package is missing"),
    "behind a wrapper": (
        while_handling(ValueError(), ValueError("no page"), of=ConnectionResetError()),
        "the server cannot be reached",
    ),
    "raised by zipfile, while it handles": (
        while_handling(ConnectionResetError(), BadZipFile("File is not a zip file")),
        "the server cannot be reached",
    ),
}  # fmt: skip

CONTENT: dict[str, Exception] = {
    "no such column": of_sqlite("SELECT foo"),
    "no such column, of SQLAlchemy": OperationalError("SELECT foo", {}, of_sqlite("SELECT foo")),
    "wrong request to AWS": ClientError({"Error": {"Code": "ValidationException"}}, "Query"),
    "no such file of FTP": ftplib.error_perm("550 No such file."),
    "no such record of gRPC": of_grpc(grpc.StatusCode.NOT_FOUND),
    "value": ValueError("not a number"),
    "Arrow": pa.ArrowInvalid("Parquet magic bytes not found"),
    "Arrow, as an OSError": OSError("Could not open Parquet input source"),
    "Arrow, torn": OSError("Couldn't deserialize thrift: TProtocolException: Invalid data"),
    "name of a file": FileNotFoundError("/in/Input/output error.csv"),
    "a line of a log": RuntimeError("no columns in: java.net.SocketException: No space left on device"),
    "a number of NetCDF": OSError(-51, "NetCDF: Unknown file format"),
    "no such file": FileNotFoundError(errno.ENOENT, "No such file"),
    "no such key": of_aws("NoSuchKey", 404),
    "HTTP 404": AnsweredError(404),
    "ours": SplitReadError("torn"),
    "value, in a fallback": while_handling(ImportError("no orjson"), ValueError("not JSON")),
    "value, instead of another error": while_handling(TimeoutError(), ValueError("not JSON"), hides=True),
    "value, from a value": while_handling(TimeoutError(), ValueError("no"), of=ValueError("no")),
}


@pytest.mark.parametrize("is_rethrown", [False, True], ids=["as raised", "behind a masked text"])
@pytest.mark.parametrize("name", ACCESS)
def test_a_failure_of_access_has_its_own_name(name: str, is_rethrown: bool) -> None:
    error, what = ACCESS[name]
    cause = cause_of_failed_access(rethrown(error) if is_rethrown else error)
    assert cause is not None
    assert what in cause.what


@pytest.mark.parametrize("is_rethrown", [False, True], ids=["as raised", "behind a masked text"])
@pytest.mark.parametrize("name", CONTENT)
def test_bad_content_is_not_a_failure_of_access(name: str, is_rethrown: bool) -> None:
    assert cause_of_failed_access(rethrown(CONTENT[name]) if is_rethrown else CONTENT[name]) is None


class Refused(SplitReader[Item]):
    """Cannot read anything, for the reason in ``error``."""

    error: ClassVar[Exception] = ValueError()

    def read(self, split: Item) -> Iterator[Any]:
        yield (split.split_id,)
        raise self.error


@pytest.mark.parametrize("policy", ["quarantine", "ignore"])
@pytest.mark.parametrize("name", ACCESS)
def test_no_policy_gives_a_split_up_because_it_cannot_be_reached(name: str, policy: str) -> None:
    Refused.error, what = ACCESS[name]
    FEEDS["refused"] = items("a", "b")
    options = {"feed": "refused", "onSplitError": policy, "onDataLoss": "report", "maxSplitAttempts": "1"}
    ids = pa.schema([("id", pa.string())])
    engine = MicroBatchEngine(options, enumerator=Feed, reader=Refused, schema=ids)
    with pytest.raises(AccessError, match="reading split 'a' failed") as caught:
        engine.run_batch()
    assert what in str(caught.value)
    assert engine.store is not None
    assert not [name for name in engine.store.list("") if engine.store.list(f"{name}/reports")]


class ExpiredKeys:
    """Refuses requests that are signed with the key ``expired``, as AWS does once a session is over."""

    def before(self, moto: Application) -> Application:
        def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            if "Credential=expired/" not in environ.get("HTTP_AUTHORIZATION", ""):
                return moto(environ, start_response)
            start_response("400 Bad Request", [("Content-Type", "application/xml")])
            text = (
                "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
            )
            return [text.encode()]

        return answer


def test_expired_credentials_quarantine_no_file_and_the_batch_is_read_once_they_are_renewed() -> None:
    with s3_endpoint(ExpiredKeys()) as endpoint:
        bucket = new_bucket(endpoint)
        for name in "abc":
            bucket.file_system.pipe_file(f"{bucket.name}/landing/{name}.json", b'{"id": 1}\n')
        options = {
            "enumerator": "files", "reader": "json", "path": f"s3://{bucket.name}/landing",
            "onSplitError": "quarantine", "maxSplitAttempts": "1", "requestInterval": "0s", **bucket.options,
        }  # fmt: skip
        engine = MicroBatchEngine(options, schema=pa.schema([("id", pa.int64())]))
        assert engine.trigger()
        engine.restart(options={"storage.key": "expired"})
        with pytest.raises(AccessError, match="the credentials have expired"):
            engine.run_batch()
        engine.restart(options=bucket.options)
        engine.process_all_available()
        assert len(engine.rows) == 3


JAVA = {
    "org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme": "a package is missing",
    "Caused by: java.nio.file.AccessDeniedException: s3a://in/a: getFileStatus": "permission is denied",
    "java.io.FileNotFoundException: /in/a.json (Permission denied)": "permission is denied",
    "Service: S3, Status Code: 403; Error Code: ExpiredToken": "the credentials have expired",
    "NoAuthWithAWSException: No AWS Credentials provided": "credentials are missing or not accepted",
    "java.net.SocketTimeoutException: Read timed out": "the server cannot be reached",
    "AWSStatus500Exception: (Service: S3, Status Code: 503, Request ID: x)": "the server is overloaded",
    "java.io.IOException: No space left on device": "the disk is full",
    "hadoop.security.token.SecretManager$InvalidToken): token (a) is expired": "the credentials have expired",
    "(org.apache.hadoop.security.token.SecretManager$InvalidToken): not in cache": "credentials are missing",
    "javax.security.sasl.SaslException: GSS initiate failed [Caused by GSSException: No valid credentials "
    "provided]": "credentials are missing or not accepted",
    "RemoteException(org.apache.hadoop.ipc.StandbyException): Operation category READ": "cannot be reached",
    "RemoteException(org.apache.hadoop.ipc.RetriableException): NameNode still not": "cannot be reached",
    "org.apache.hadoop.hdfs.BlockMissingException: Could not obtain block: BP-1": "cannot be reached",
    "java.io.IOException: Connection reset by peer": "cannot be reached",
    "java.io.IOException: Broken pipe": "cannot be reached",
    "java.io.FileNotFoundException: /mnt/a.parquet (Stale file handle)": "cannot be reached",
    "java.io.IOException: Transport endpoint is not connected": "cannot be reached",
    "org.apache.http.ConnectionClosedException: Premature end of Content-Length": "cannot be reached",
    'Operation failed: "Egress is over the account limit.", 503, GET, https://a': "overloaded",
    'Operation failed: "This request is not authorized.", 403, GET, https://a': "permission is denied",
    "com.google.api.client.json.GoogleJsonResponseException: 429 Too Many": "overloaded",
    "com.google.api.client.json.GoogleJsonResponseException: 403 Forbidden": "permission is denied",
    "ExecutorLostFailure (executor 3 exited caused by one of the running tasks)": "an executor was lost",
    "Task 0 in stage 1.0 failed 4 times, most recent failure: TaskResultLost (result": "an executor was lost",
    "Aborting TaskSet 1.0 because task 0 cannot run anywhere due to node and executor excludeOnFailure.": (
        "an executor was lost"
    ),
    "java.io.IOException: org.apache.spark.SparkException: [INTERNAL_ERROR_BROADCAST] Failed to get "
    "broadcast_3_piece0 of broadcast_3": "an executor was lost",
    "org.apache.parquet.crypto.ParquetCryptoRuntimeException: Trying to read file with encrypted footer. "
    "No keys available": "the credentials are missing",
    "org.apache.parquet.crypto.ParquetCryptoRuntimeException: v. Null File Decryptor": "the credentials are",
    "org.apache.parquet.crypto.KeyAccessDeniedException: Footer key: access denied": "the credentials are",
    "java.lang.UnsatisfiedLinkError: no snappyjava in java.library.path": "a package is missing",
    "java.lang.NoSuchMethodError: 'void org.apache.parquet.A.b()'": "a package is missing",
    "java.io.InvalidClassException: org.apache.spark.A; local class incompatible": "a package is missing",
}


class JvmError(Exception):
    """An error of the JVM, as pyspark raises it: the causes are in the stack trace."""

    def __init__(self, trace: str) -> None:
        super().__init__("[FAILED_READ_FILE.NO_HINT] Encountered error while reading file")
        self._stackTrace = trace


@pytest.mark.parametrize("trace", JAVA)
def test_a_failure_of_access_in_the_jvm_is_recognized(trace: str) -> None:
    error = access_error_of_spark(
        JvmError(f"org.apache.spark.SparkException: x\n{trace}\n at a.b(C.java)"), "a", name="/in/a.json"
    )
    assert error is not None
    assert JAVA[trace] in error.what


@pytest.mark.parametrize(
    "trace",
    [
        "java.lang.RuntimeException: file:/in/a.parquet is not a Parquet file. Expected magic number at tail",
        "java.io.FileNotFoundException: File file:/in/a.json does not exist",
        "java.util.zip.ZipException: invalid distance too far back",
        "org.apache.parquet.crypto.TagVerificationException: GCM tag check failed",
        "com.fasterxml.jackson.core.JsonParseException: Unexpected character",
    ],
)
def test_bad_content_in_the_jvm_is_not_a_failure_of_access(trace: str) -> None:
    assert access_error_of_spark(JvmError(trace), "a", name="/in/a.json") is None


@pytest.mark.parametrize("name", ["/in/AccessDenied/SlowDown é.json", "/ServiceUnavailable.json"])
def test_the_name_of_a_file_is_not_taken_for_a_failure_of_access(name: str) -> None:
    for spelled in (name, quote(name)):
        error = JvmError(
            f"java.lang.RuntimeException: file:{spelled} is not a Parquet file; see {spelled}.crc"
        )
        assert access_error_of_spark(error, "a", name=name) is None


@pytest.mark.parametrize(
    "trace",
    [
        "java.lang.InterruptedException",
        "java.nio.channels.ClosedByInterruptException",
        "org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 3 cancelled part of job group 1",
        "org.apache.spark.SparkException: Job 3 cancelled because SparkContext was shut down",
        "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.",
        "org.apache.spark.TaskKilledException",
    ],
)
def test_an_error_of_a_query_that_is_stopped_is_told_from_bad_content(trace: str) -> None:
    assert is_of_a_stop(JvmError(trace))


@pytest.mark.parametrize(
    "cause",
    [
        "org.apache.spark.SparkUpgradeException: [INCONSISTENT_BEHAVIOR_CROSS_VERSION.READ_ANCIENT_DATETIME]",
        "java.util.NoSuchElementException: No value found for 'legacy'\n\tat scala.Enumeration.withName",
        "java.io.IOException: /a.xsd\n\tat org.apache.spark.sql.catalyst.xml.ValidatorUtil$.getSchema",
    ],
)
def test_an_option_that_spark_checks_in_its_tasks_is_told_from_bad_content(cause: str) -> None:
    trace = f"org.apache.spark.SparkException: Job aborted due to stage failure\nCaused by: {cause}"
    assert is_of_reading(SparkConnectException(trace.partition("\n")[0]))
    assert not is_of_reading(SparkConnectException(trace))


def test_an_error_of_python_code_is_told_from_those_of_spark() -> None:
    assert is_of_reading(SparkConnectException("[FAILED_READ_FILE.NO_HINT] Encountered error"))
    of_python = (
        ConnectionRefusedError(),
        TypeError("x"),
        PySparkAttributeError("JVM_ATTRIBUTE_NOT_SUPPORTED"),
    )
    for error in (*of_python, Py4JNetworkError("Answer from Java side is empty")):
        assert not is_of_reading(error)


@pytest.mark.parametrize(
    "message",
    [
        "org.apache.spark.SparkException: [MALFORMED_CSV_RECORD.X] Malformed CSV record: 1,{}",
        "com.fasterxml.jackson.core.JsonParseException: Unexpected character\n at [Source: (String)'{}'",
        "org.apache.spark.SparkRuntimeException: [CANNOT_PARSE_JSON_FIELD] Cannot parse the value {} of",
        'java.lang.NumberFormatException: For input string: "{}"',
    ],
)
def test_the_content_of_a_file_is_not_taken_for_a_failure_of_access(message: str) -> None:
    text = message.format("java.net.SocketTimeoutException: Read timed out") + "\n\tat a.b(C.java)"
    assert access_error_of_spark(JvmError(text), "a", name="/in/a") is None
    of_task = f"Job aborted due to stage failure\n{message.format('UnsupportedCharsetException: x')}"
    assert is_of_reading(SparkConnectException(of_task))
    text += "\nCaused by: java.net.SocketTimeoutException: Read timed out"
    assert access_error_of_spark(JvmError(text), "a", name="/in/a") is not None


def test_of_a_stack_trace_the_causes_remain() -> None:
    text = (
        "boom\n\tat org.apache.spark.Some$.run(Some.scala:1)\n\tat java.base/java.lang.Thread.run(T.java:8)\n"
        "Caused by: java.io.IOException: gone\n\tat a.B.<init>(B.java)\n\t... 12 more\n"
        'Traceback (most recent call last):\n  File "a b.py", line 3, in <lambda>\n    f(\n    ^^\n'
        "flip27_source.errors.OptionError: bad\n  What to do: look at it"
    )
    assert without_frames(text).split("\n") == [
        "boom", "Caused by: java.io.IOException: gone", "Traceback (most recent call last):",
        "flip27_source.errors.OptionError: bad", "  What to do: look at it",
    ]  # fmt: skip
    without_frames("\n" * 50_000 + " " * 50_000 + "x")
