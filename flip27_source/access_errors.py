"""Tells failures of access from bad content, whichever library raised them (R21).

Libraries raise dozens of types for the same few causes, and most of them are optional. So a failure is
recognized by what its types have in common: Python's own types, the names of classes, statuses and codes.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from .errors import AccessError, Flip27Error, is_final, kept_text, kept_words, text_of


@dataclass(frozen=True, slots=True)
class Cause:
    """Why data cannot be reached: for messages, what failed and what to do."""

    what: str
    remedy: str


EXPIRED = Cause("the credentials have expired", "renew the credentials that the executors and the driver use")
CREDENTIALS = Cause(
    "the credentials are missing or not accepted",
    "give the executors and the driver valid credentials: options of the file system (storage.*), the "
    "environment, or a role of the machine",
)
PERMISSION = Cause(
    "permission is denied",
    "give the user or role that runs the executors and the driver the permission to read",
)
NETWORK = Cause(
    "the server cannot be reached or does not answer", "check the server, its name and the network between"
)
BUSY = Cause(
    "the server is overloaded or fails", "wait until the server answers again, or send fewer requests"
)
DISK = Cause(
    "the disk is full, read-only or failing",
    "free space or replace the disk on the host that the error names",
)
HANDLES = Cause("too many files are open", "raise the limit of open files (ulimit -n)")
MEMORY = Cause("there is not enough memory", "give the process more memory, or read smaller splits")
THREADS = Cause(
    "no further thread or process can be started", "raise the limit of processes (ulimit -u) or the memory"
)
EXECUTOR = Cause("an executor was lost", "see the end of its log: it may need more memory")
PACKAGE = Cause("a package is missing", "install the package on all executors and on the driver")

_ERRNOS = dict.fromkeys(errno.errorcode, NETWORK) | {
    getattr(errno, name, None): cause  # not every platform has all of them
    for cause, names in {
        EXPIRED: "EKEYEXPIRED",
        CREDENTIALS: "EKEYREVOKED EKEYREJECTED ENOKEY",
        PERMISSION: "EACCES EPERM",
        DISK: "ENOSPC EDQUOT EROFS EIO ENXIO ENODEV ENOMEDIUM EREMOTEIO EUCLEAN EBADMSG ENODATA",
        HANDLES: "EMFILE ENFILE",
        MEMORY: "ENOMEM",
        BUSY: "EBUSY EAGAIN EINTR EDEADLK ENOLCK ENOBUFS",
        None: "ENOENT ENOTDIR EISDIR EEXIST EINVAL EILSEQ ENAMETOOLONG ELOOP EFBIG EOVERFLOW ESPIPE",
    }.items()
    for name in names.split()
}
"""Why a call to the operating system failed; None: because of a name or of content."""
_CODES = {  # of AWS, which sends some with status 400, of gRPC and of ADBC
    EXPIRED: "ExpiredToken|RequestExpired|TokenRefreshRequired",
    BUSY: "Throttl|Throughput|LimitExceeded|TooManyRequests|SlowDown|RequestTimeout|PriorRequestNotComplete"
    "|TransactionInProgress|RESOURCE_EXHAUSTED|ABORTED",
    CREDENTIALS: "InvalidAccessKeyId|Signature|InvalidToken|Authentication|InvalidClientTokenId|AuthFailure"
    "|UnrecognizedClient|RequestTimeTooSkewed|AuthorizationHeader|UNAUTHENTICATED",
    PERMISSION: "AccessDenied|AuthorizationError|NotAuthorized|Unauthorized|OptInRequired|^KMS"
    "|PERMISSION_DENIED|UNAUTHORIZED",
    NETWORK: "UNAVAILABLE|DEADLINE_EXCEEDED|CANCELLED|^IO$|^TIMEOUT$",
}
_TYPES = {
    "ImportError": PACKAGE,
    "MemoryError": MEMORY,
    "PermissionError": PERMISSION,
    **dict.fromkeys(("ConnectionError", "TimeoutError"), NETWORK),
    **dict.fromkeys(
        ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "TokenRetrievalError",
         "ClientAuthenticationError", "CredentialUnavailableError", "DefaultCredentialsError", "RefreshError",
         "GoogleAuthError", "AuthenticationException", "SSOTokenLoadError"),
        CREDENTIALS,
    ),
    **dict.fromkeys(("PermissionDenied", "SFTPPermissionDenied", "FlightUnauthorizedError"), PERMISSION),
    "FlightUnauthenticatedError": CREDENTIALS,
    "error_temp": BUSY,  # of ftplib
    **dict.fromkeys(
        ("ClientConnectionError", "ClientOSError", "ServerDisconnectedError", "ServerTimeoutError",
         "ClientConnectorError", "ClientPayloadError", "EndpointConnectionError", "ConnectTimeoutError",
         "ReadTimeoutError", "ConnectionClosedError", "HTTPClientError", "ServiceRequestError",
         "ServiceResponseError", "TransportError", "FSTimeoutError", "NewConnectionError", "MaxRetryError",
         "ProtocolError", "IncompleteRead", "IncompleteReadError", "BadStatusLine", "URLError", "SSLError",
         "Timeout", "ConnectionLost", "SFTPConnectionLost", "SFTPNoConnection", "DisconnectError", "gaierror",
         "OperationalError", "InterfaceError", "FlightUnavailableError", "FlightTimedOutError"),
        NETWORK,
    ),
}  # fmt: skip
_STATUSES = {401: CREDENTIALS, 403: PERMISSION, 407: NETWORK, **dict.fromkeys((408, 425, 429), BUSY)}
_SQLSTATES = {
    **dict.fromkeys(("25P03", "25P04", "40", "53", "55", "57"), BUSY),  # 25P: a transaction took too long
    "08": NETWORK, "28": CREDENTIALS, "42501": PERMISSION, "58": DISK,
}  # fmt: skip
_SQLITE = {  # SQLite's errors of access have the same type as those of wrong SQL
    **dict.fromkeys((3, 23), PERMISSION), **dict.fromkeys((5, 6, 9, 15), BUSY), 7: MEMORY,
    **dict.fromkeys((8, 10, 13, 14), DISK),
}  # fmt: skip
_STATUS = r'(?:Status Code:|HTTP status|(?:GoogleJson|Http)ResponseException:|Operation failed: ".*",)'
_IN_TEXTS = {  # of Java and Arrow
    EXPIRED: _CODES[EXPIRED] + r"|InvalidToken\b.* is expired",
    CREDENTIALS: r"NoAuthWithAWSException|AuthenticationFailed|CredentialInitializationException"
    r"|NoAwsCredentials|InvalidAccessKeyId|INVALID_ACCESS_KEY_ID|SignatureDoesNotMatch|SIGNATURE_DOES_NOT_MATCH"
    r"|Unable to load credentials|SecretManager\$InvalidToken|GSSException|SaslException"
    rf"|{_STATUS} 401\b"  # the others are of encrypted Parquet
    r"|No keys available|No footer key or key|Null File Decryptor|Null KEK|KMS ?[Cc]lient|KMS instance "
    r"|KeyAccessDeniedException",
    PERMISSION: r"AccessDenied|ACCESS_DENIED|AccessControlException|Permission denied"
    rf"|{_STATUS} 403\b",
    PACKAGE: r"UnsupportedFileSystemException|ClassNotFoundException|NoClassDefFoundError"
    r"|InvalidClassException|(?:UnsatisfiedLink|NoSuchMethod|NoSuchField|AbstractMethod|IncompatibleClassChange)Error",
    DISK: r"No space left on device|Read-only file system|Input/output error",
    HANDLES: r"Too many open files",
    THREADS: r"unable to create native thread|can't start new thread",
    MEMORY: r"OutOfMemoryError",
    NETWORK: r"(?:Connect|NoRouteToHost|Socket|Timeout|UnknownHost|InterruptedIO|SSL|AWSClientIO)Exception"
    r"|NETWORK_CONNECTION|REQUEST_TIMEOUT|(?:Standby|Retriable|BlockMissing|ConnectionClosed|NoHttpResponse)"
    r"Exception|(?:Exception: |\()(?:Connection reset|Broken pipe|Stale file handle|Transport endpoint is )",
    EXECUTOR: "ExecutorLostFailure|TaskResultLost|FetchFailed|excludeOnFailure|Failed to get broadcast",
    BUSY: rf"{_STATUS} (?:408|425|429|5\d\d)\b|SlowDown|SLOW_DOWN|ServiceUnavailable"
    r"|SERVICE_UNAVAILABLE|AWSServiceThrottled|THROTTLING|INTERNAL_FAILURE",
}
_STOPS = (
    r"\bInterrupt\w*Exception|ClosedByInterrupt|TaskKilled|SPARK_JOB_CANCELLED|SparkContext was shut down"
    r"|stopped SparkContext|OPERATION_CANCELED|INVALID_HANDLE|StatusCode\.UNAVAILABLE"
)
_OF_SPARK = {"CapturedException", "SparkConnectException", "Py4JJavaError"}
_READING = (
    r"FAILED_READ_FILE|stage failure|scheduler\.Task\.run|INVALID_PARTITION_VALUE|java\.io\.\w+Exception"
)
_OF_OPTIONS = (
    r"\bat org\.apache\.spark\.sql\.catalyst\.\w+\.(?:(?:CSV|JSON|Xml)Options|ValidatorUtil)\b"
    r"|CharsetException|INCONSISTENT_BEHAVIOR_CROSS_VERSION|\bat scala\.Enumeration\.withName\b"
)
_DATA = re.compile(
    r"(?:\[(?:MALFORMED|CANNOT_PARSE|CAST)_|(?:Pars(?:e|ing)|BadRecord|NumberFormat)Exception:)"
    r".*?(?=\n\s+at \w|\nCaused by: |\Z)",
    re.DOTALL,
)
"""Messages of Spark and its parsers that quote what a file contains."""
_FRAMES = re.compile(
    r"\n[ \t]+(?:at [\w.$/]+[.(].*|\.\.\. \d+ (?:more|elided)(?=\n|\Z)"
    r'|File ".*", line \d+, in .*(?:\n    .*)*)'
)
"""Of Java and of Python."""
_SQLSTATE = re.compile(r"\s{1,3}SQLSTATE: \w{5}\Z")
_PACKAGE = re.compile(r"\A(?:[\w$]+\.)+(?=[\w$]+(?:: |\n|\Z))")
_DUCKDB = {  # its errors have one type and one code by ADBC
    BUSY: r"^INTERNAL: IO Error: Could not set lock",
    DISK: r"^INTERNAL: IO Error:",
    NETWORK: r"^INTERNAL: (?:HTTP|Connection|INTERRUPT) Error:",
    PERMISSION: r"^INTERNAL: Permission Error:",
    MEMORY: r"^INTERNAL: Out of Memory Error:",
    PACKAGE: r"^INTERNAL: (?:Missing )?Extension",
}
_NOTHING_LOST = "nothing was quarantined or lost"
_MOST_CAUSES = 20
_SHOWN = 1000
_SAYS_EXPIRED = re.compile(r"\bexpired?\b|not valid in the specified time frame", re.IGNORECASE)


def cause_of_failed_access(error: BaseException) -> Cause | None:
    """Why the data cannot be reached; None if access did not fail, or not for a reason that is known."""
    chain = list(_chain(error))
    # What a server has answered says more than the type that a library has made of it.
    causes = [cause for tell in (_by_code, _by_status, _by_type) for link in chain if (cause := tell(link))]
    if not causes:
        return None
    says_expired = any(_SAYS_EXPIRED.search(text_of(link)) for link in chain)
    return EXPIRED if says_expired and causes[0] in (PERMISSION, CREDENTIALS) else causes[0]


def access_error(error: BaseException, what: str, *, said: str | None = None) -> AccessError | None:
    """The error that a failure of access becomes; None if access did not fail.

    Args:
        what: what could not be done, such as "split 'a' cannot be read".
        said: the text of the error, where its own text does not say enough, or says secrets.
    """
    cause = cause_of_failed_access(error)
    if cause is None:
        return None
    if isinstance(error, Flip27Error) and error.remedy is not None:
        return AccessError(f"{what}: {error.what}", remedy=f"{error.remedy}; {_NOTHING_LOST}")
    return _made(cause, what, said or (error.what if isinstance(error, Flip27Error) else kept_text(error)))


def _made(cause: Cause, what: str, said: str) -> AccessError:
    remedy = f"{cause.remedy}, and restart the query; {_NOTHING_LOST}"
    return AccessError(f"{what}: {cause.what}: {said}", remedy=remedy)


def access_error_of_spark(
    error: Exception, what: str, *, name: str, hide: Callable[[str], str] = str
) -> AccessError | None:
    """As ``access_error``, for an error of Spark's own readers: its text has the classes of Java.

    Args:
        name: the file's, from the root on; it may look like a class or a code. hide: removes secrets.
    """
    text = _DATA.sub("", unquote(_text_of_spark(error)))  # Spark writes paths as URIs
    for known in (name, name.rpartition("/")[0]):
        text = text.replace(known, "") if known else text
    cause = _matching(_IN_TEXTS, text)
    return None if cause is None else _made(cause, what, kept_text(error, hide)[:_SHOWN])


def is_of_reading(error: Exception) -> bool:
    """Whether the error was raised in Spark's JVM while data was read, and not for an option of a reader."""
    if _OF_SPARK.isdisjoint(kind.__name__ for kind in type(error).__mro__):
        return False
    text = _text_of_spark(error)
    return re.search(_READING, text) is not None and re.search(_OF_OPTIONS, _DATA.sub("", text)) is None


def without_frames(text: str) -> str:
    """The text of an error without the frames of stack traces, between which the causes are."""
    return _FRAMES.sub("", text)


def parts_of_spark(text: str) -> tuple[str, str | None]:
    """The text of an error as stored in the state, and what to do, in Spark's text without frames.

    Spark quotes what Python has raised; the last error is the one that has ended the query.
    """
    _, _, last = text.rpartition("Traceback (most recent call last):\n")
    what, _, rest = _SQLSTATE.sub("", last.strip()).partition("\n  What to do: ")
    remedy = rest.partition("\n")[0]
    return kept_words(_PACKAGE.sub("", what)), kept_words(remedy) or None


def is_of_a_stop(error: Exception) -> bool:
    """Whether something failed because its query or Spark itself is being stopped."""
    return any(re.search(_STOPS, _text_of_spark(link)) for link in (error, *_chain(error)))


def _text_of_spark(error: BaseException) -> str:
    texts: list[str] = []
    link: Any = error
    while link is not None and len(texts) < _MOST_CAUSES:
        # Spark keeps the stack trace of an error of the JVM, with its causes, beside the message.
        trace = getattr(link, "_stackTrace", None) or getattr(link, "_stacktrace", None)
        texts += [text_of(link), str(trace or "")]
        link = getattr(link, "_cause", None) or getattr(link, "cause", None)
    return "\n".join(texts)


def may_pass(error: BaseException) -> bool:
    """Whether what failed may work the next time, because something outside was asked."""
    if is_final(error):  # what is gone or damaged, which an OSError may have told
        return False
    return cause_of_failed_access(error) is not None or any(
        isinstance(link, OSError) for link in _chain(error)
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what led to it, even where a text of ours without credentials replaces the original.

    Errors of others do not come of what they hide, nor of a missing package in whose place another is used.
    """
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        is_ours = isinstance(link, Flip27Error)
        if not is_ours:  # only what led to it says whether access failed
            yield link
        is_other = link.__suppress_context__ or isinstance(link.__context__, ImportError)
        link = link.__cause__ or (None if is_other and not is_ours else link.__context__)


def _matching(patterns: Mapping[Cause, str], text: str) -> Cause | None:
    return next((cause for cause, pattern in patterns.items() if re.search(pattern, text)), None)


def _by_type(error: BaseException) -> Cause | None:
    of_sqlite = getattr(getattr(error, "orig", error), "sqlite_errorcode", None)  # orig: of SQLAlchemy
    if of_sqlite is not None:
        return _SQLITE.get(of_sqlite & 0xFF)
    names = (kind.__name__ for kind in type(error).__mro__)
    cause = next((_TYPES[name] for name in names if name in _TYPES), None)
    if cause is None and isinstance(error, OSError) and error.errno is not None:
        # libhdfs and NFS have own numbers; libraries of formats have negative ones.
        return _ERRNOS.get(error.errno, NETWORK if error.errno > 0 else None)
    if type(error).__module__.startswith("adbc_"):
        return cause or _matching(_DUCKDB, text_of(error))
    # Arrow's errors have nothing but a text; those of others may quote names of files and content.
    if type(error) is OSError or text_of(error) == "can't start new thread":
        return _matching(_IN_TEXTS, text_of(error))
    return cause


def _by_code(error: BaseException) -> Cause | None:
    """The SQLSTATE of a database, or the code in an answer of AWS, gRPC, ADBC or FTP."""
    state = getattr(error, "sqlstate", None)
    if isinstance(state, str):
        return next((cause for start, cause in _SQLSTATES.items() if state.startswith(start)), None)
    response: Any = getattr(error, "response", None)
    code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
    names = {kind.__name__ for kind in type(error).__mro__}
    if "RpcError" in names and callable(of_grpc := getattr(error, "code", None)):
        code = getattr(of_grpc(), "name", None)
    of_adbc: Any = getattr(error, "status_code", None)
    if type(of_adbc).__name__ == "AdbcStatusCode":
        code = of_adbc.name
    if isinstance(code, str):
        return _matching(_CODES, code)
    if "error_perm" in names and text_of(error).startswith("53"):
        return CREDENTIALS
    return None


def _by_status(error: BaseException) -> Cause | None:
    """The HTTP status that an error of a client library has, under one of a few names."""
    response: Any = getattr(error, "response", None)
    if isinstance(response, dict) and (of_aws := response.get("ResponseMetadata", {}).get("HTTPStatusCode")):
        return status_cause(of_aws)
    # aiohttp warns of a use of ``code``, so it comes last.
    names = ((error, "status"), (error, "status_code"), (response, "status_code"), (error, "code"))
    for owner, name in names:
        value = getattr(owner, name, None)
        if isinstance(value, int) and not isinstance(value, bool):
            return status_cause(value)
    return None


def status_cause(status: int) -> Cause | None:
    """What an HTTP status says about access; None if it says nothing."""
    return _STATUSES.get(status) or (BUSY if 500 <= status < 600 else None)
