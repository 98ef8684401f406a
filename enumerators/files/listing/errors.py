"""The errors for a path or a listed file. Pure: no I/O."""

from __future__ import annotations

from typing import Any

from flip27_source.access_errors import cause_of_failed_access
from flip27_source.errors import DiscoveryError, OptionError
from flip27_source.file_systems.paths import answer_text, is_web, redacted
from flip27_source.file_systems.secrets_in_texts import Hidden

_CLIENT_KWARGS = (
    'option storage.client_kwargs, as {"headers": {"Authorization": "Basic ..."}} '
    "with the Base64 of user:password in place of the dots"
)


def has_a_user(path: str, what: str = "path") -> OptionError:
    """The error for a path that contains a user name or password, without these secrets."""
    options = _CLIENT_KWARGS if is_web(path) else "options storage.username and storage.password"
    return OptionError(
        f"{what} {redacted(path)} has a user name or password in it, which would be stored with its files",
        remedy=f"remove them from the path and set them with {options}",
    )


def no_such_path(path: str) -> OptionError:
    return OptionError(f"path {path} does not exist", remedy="create the directory, or correct the path")


def refuse_sink_log(name: str, folder: str) -> None:
    """Raise DiscoveryError if an ignored name in this folder is the log of Spark's file sink."""
    if name == "_spark_metadata":
        raise DiscoveryError(
            f"{folder} is the output of Spark's file sink: only its log, {name}, says which of the files are "
            "complete, and which a killed query has left",
            remedy="read it with Spark's own source. To read every file in it, write the path as "
            f"{folder}/*, with the option basePath if there are partition columns",
        )


def cannot_be_listed(path: str, error: OSError) -> OptionError:
    remedy = "correct the path: it must be a directory or a link to a directory"
    if isinstance(error, PermissionError):
        remedy = "give the driver's user read and execute permission on the directory"
    return OptionError(f"path {path} cannot be listed: {error.strerror}", remedy=remedy)


def unreachable(path: str, error: Exception, file_system: Any) -> OptionError:
    """The error for a path whose existence cannot be checked."""
    return OptionError(
        f"path {path} cannot be reached: {_said(error, file_system)}",
        remedy=_remedy_of(error, "check the URL, the credentials (storage.* options) and the network"),
    )


def not_answered(path: str, error: Exception, file_system: Any) -> DiscoveryError:
    """The error for a listed file whose request fails."""
    return DiscoveryError(
        f"{path} is listed, but the request for its length failed: {_said(error, file_system)}",
        remedy=_remedy_of(error, "check the server and the credentials (storage.* options)"),
    )


def _said(error: Exception, file_system: Any) -> str:
    return Hidden(file_system.storage_options).in_text(answer_text(error))


def _remedy_of(error: Exception, otherwise: str) -> str:
    cause = cause_of_failed_access(error)
    return otherwise if cause is None else f"{cause.what}: {cause.remedy}; {otherwise}"
