"""Names of all files in a state location: the only place that builds paths. Pure functions.

<stateLocation>/<uid>-<random>/      one lineage
  source.json                        the source that the lineage belongs to
  checkpoints/<id>-<digest>.json     documents
  segments/<digest>.<kind>.<form>    immutable bulk state
  reports/<id>-<digest>.<subtask>.json       acknowledgements of that document
  failures/<id>-<digest>.<split>-<n>.json    n-th failure to read a split of that document
  failures/<id>-<digest>.savepoint-<subtask>.json   what a subtask could not add to its savepoint
  failures/<id>-<digest>.task-<subtask>-<time>.json   why an attempt of a subtask failed at that time, in ms
  failures/<id>-<digest>.batch-<time>.json   what else has ended that batch
  requests/<uuid>.json                       edits and savepoints that wait for the next batch boundary
  requests/<uuid>.failed.json                why a request failed
  drivers/<epoch>.json                       the driver of an epoch; the highest epoch drives the lineage
  drivers/<epoch>.failed.json                why a run that came after that driver ended before it drove
  drivers/<epoch>.<time>.alive               the driver was alive at that time, in ms; deleted at its end
  claim.json                                 the savepoint that the lineage started from and owns
<stateLocation>/schemas/<uid>/<version>.json     inferred schemas; the highest version applies
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import CorruptStateError
from ..segment import content_digest

SOURCE_FILE = "source.json"
SCHEMAS = "schemas"
CHECKPOINTS = "checkpoints"
SEGMENTS = "segments"
REPORTS = "reports"
FAILURES = "failures"
REQUESTS = "requests"
DRIVERS = "drivers"
CLAIM_FILE = "claim.json"
SAVEPOINT_METADATA = "_metadata"
"""The metadata file of a savepoint; it is written last, so it marks a complete savepoint."""
FOLDERS = (CHECKPOINTS, SEGMENTS, REPORTS, FAILURES, REQUESTS, DRIVERS)
"""The folders that a lineage may contain besides its own two files."""

_CHECKPOINT_NAME = re.compile(r"(\d{1,18})-([0-9a-f]{32})\.json")
_SEGMENT_NAME = re.compile(r"[0-9a-f]{32}\.[a-z0-9-]{1,32}\.(?:json|bin)")
_REPORT_NAME = re.compile(r"(\d+-[0-9a-f]{32})\.(\d{1,9})\.json")
_FAILURE_NAME = re.compile(r"(\d+-[0-9a-f]{32})\.([0-9a-f]{32})-(\d{1,9})\.json")
_FAILED_ADDITION_NAME = re.compile(r"(\d+-[0-9a-f]{32})\.savepoint-(\d{1,9})\.json")
_FAILED_TASK_NAME = re.compile(r"(\d+-[0-9a-f]{32})\.(?:task-(\d{1,9})|batch)-(\d{1,18})\.json")
_REQUEST_NAME = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(\.failed)?\.json")
_NUMBER_NAME = re.compile(r"(\d{1,18})\.json")
_FAILED_START_NAME = re.compile(r"(\d{1,18})\.failed\.json")
_RENEWAL_NAME = re.compile(r"(\d{1,18})\.(\d{1,18})\.alive")
_LINEAGE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}-[0-9a-f]{16}")


@dataclass(frozen=True, slots=True, order=True)
class CheckpointName:
    """The name of a document: its id and the digest of its content."""

    checkpoint_id: int
    digest: str

    def __str__(self) -> str:
        return f"{self.checkpoint_id}-{self.digest}"

    @property
    def file_name(self) -> str:
        return f"{self}.json"

    @classmethod
    def parse(cls, text: str) -> CheckpointName | None:
        """Parse ``<id>-<digest>`` or the file name; None if it is neither."""
        match = _CHECKPOINT_NAME.fullmatch(text if text.endswith(".json") else text + ".json")
        return None if match is None else cls(int(match[1]), match[2])


def lineage_name(uid: str, random_hex: str) -> str:
    """The directory of a lineage: the uid in safe characters, and 16 random hex digits."""
    return f"{_safe(uid)}-{random_hex}"


def uid_in(lineage: str) -> str:
    """The uid in the name of a lineage, in safe characters."""
    return lineage.rpartition("-")[0]


def schema_folder(uid: str) -> str:
    """The folder of the schemas inferred for a uid, next to its lineages."""
    return f"{SCHEMAS}/{_safe(uid)}"


def schema_file(uid: str, version: int) -> str:
    """Path of a version of the schema, from version 1 on, relative to the state location."""
    return f"{schema_folder(uid)}/{version}.json"


def _safe(uid: str) -> str:
    return re.sub(r"\.{2,}|[^A-Za-z0-9_.-]", "_", uid)[:80].lstrip(".") or "source"


def checked_lineage_name(text: str) -> str:
    """``text`` itself if it is the name of a lineage, which never leads out of the state location."""
    if _LINEAGE_NAME.fullmatch(text) is None or ".." in text:
        raise CorruptStateError(
            f"{text!r} is not the name of a lineage in a state location",
            remedy="give the name of a directory in the state location, or restore the file with this text",
        )
    return text


def checked_segment_name(text: str) -> str:
    if _SEGMENT_NAME.fullmatch(text) is None:
        raise CorruptStateError(f"{text!r} is not the name of a segment")
    return text


def checked_report_name(text: str) -> str:
    if _REPORT_NAME.fullmatch(text) is None:
        raise CorruptStateError(f"{text!r} is not the name of a report")
    return text


def checked_relative(text: str) -> str:
    """``text`` itself if it is a path below the folder that it is relative to."""
    if any(part in ("", ".", "..") for part in text.split("/")) or "\\" in text or "\0" in text:
        raise CorruptStateError(f"{text!r} is not a relative path without '.', '..' or empty parts")
    return text


def checkpoint_file(lineage: str, name: CheckpointName) -> str:
    return f"{lineage}/{CHECKPOINTS}/{name.file_name}"


def segment_file(lineage: str, name: str) -> str:
    return f"{lineage}/{SEGMENTS}/{name}"


def source_file(lineage: str) -> str:
    return f"{lineage}/{SOURCE_FILE}"


def claim_file(lineage: str) -> str:
    return f"{lineage}/{CLAIM_FILE}"


def report_file(lineage: str, name: CheckpointName, subtask_id: int) -> str:
    return f"{lineage}/{REPORTS}/{name}.{subtask_id}.json"


def failure_file(lineage: str, name: CheckpointName, split_id: str, number: int) -> str:
    """Path of the record of the ``number``-th failure, from 1, to read a split."""
    return f"{lineage}/{FAILURES}/{name}.{split_digest(split_id)}-{number}.json"


def failed_addition_file(lineage: str, name: CheckpointName, subtask_id: int) -> str:
    """Path of the record of what a subtask could not add to the savepoint of a document."""
    return f"{lineage}/{FAILURES}/{name}.savepoint-{subtask_id}.json"


def failed_task_file(lineage: str, name: CheckpointName, subtask_id: int | None, at_ms: int) -> str:
    """Path of the record of why an attempt of a subtask failed at a time, in ms; or a batch (None)."""
    of = "batch" if subtask_id is None else f"task-{subtask_id}"
    return f"{lineage}/{FAILURES}/{name}.{of}-{at_ms}.json"


def belongs_to(file_name: str) -> CheckpointName | None:
    """The document that a report or a failure belongs to; None for other files."""
    return CheckpointName.parse(file_name.partition(".")[0])


def split_digest(split_id: str) -> str:
    """The digest of a split id, which may be any text, for use in a file name."""
    return content_digest(split_id.encode("utf-8", "surrogatepass"))


def request_file(lineage: str, request_id: str) -> str:
    return f"{lineage}/{REQUESTS}/{request_id}.json"


def failed_request_file(lineage: str, request_id: str) -> str:
    return f"{lineage}/{REQUESTS}/{request_id}.failed.json"


def driver_file(lineage: str, epoch: int) -> str:
    return f"{lineage}/{DRIVERS}/{epoch}.json"


def failed_start_file(lineage: str, epoch: int) -> str:
    """Path of the file that says why a run ended that came after the driver of ``epoch`` and never drove."""
    return f"{lineage}/{DRIVERS}/{epoch}.failed.json"


def renewal_file(lineage: str, epoch: int, said_ms: int) -> str:
    """Path of the file that shows that the driver of ``epoch`` was alive at a time, in milliseconds."""
    return f"{lineage}/{DRIVERS}/{epoch}.{said_ms}.alive"


def parse_report(file_name: str) -> tuple[CheckpointName, int] | None:
    """The document and the subtask in a report's file name; None for other names."""
    return _of_subtask(_REPORT_NAME, file_name)


def parse_failed_addition(file_name: str) -> tuple[CheckpointName, int] | None:
    """The document and the subtask in the file name of a failed addition; None for other names."""
    return _of_subtask(_FAILED_ADDITION_NAME, file_name)


def parse_failed_task(file_name: str) -> tuple[CheckpointName, int | None, int] | None:
    """What ``failed_task_file`` was given, except the lineage; None for other names."""
    match = _FAILED_TASK_NAME.fullmatch(file_name)
    name = None if match is None else CheckpointName.parse(match[1])
    return (
        None
        if match is None or name is None
        else (name, None if match[2] is None else int(match[2]), int(match[3]))
    )


def _of_subtask(pattern: re.Pattern[str], file_name: str) -> tuple[CheckpointName, int] | None:
    match = pattern.fullmatch(file_name)
    name = None if match is None else CheckpointName.parse(match[1])
    return None if match is None or name is None else (name, int(match[2]))


def parse_failure(file_name: str) -> tuple[CheckpointName, str, int] | None:
    """The document, the split's digest and the number in a failure's file name; None for other names."""
    match = _FAILURE_NAME.fullmatch(file_name)
    name = None if match is None else CheckpointName.parse(match[1])
    return None if match is None or name is None else (name, match[2], int(match[3]))


def parse_request(file_name: str) -> tuple[str, bool] | None:
    """The request's id, and whether the file has the reason why it failed; None for other names."""
    match = _REQUEST_NAME.fullmatch(file_name)
    return None if match is None else (match[1], match[2] is not None)


def parse_number(file_name: str) -> int | None:
    """The epoch in a driver's file name, or the version in a schema's; None for other names."""
    match = _NUMBER_NAME.fullmatch(file_name)
    return None if match is None else int(match[1])


def parse_failed_start(file_name: str) -> int | None:
    """The epoch in the file name of a failed start; None for other names."""
    match = _FAILED_START_NAME.fullmatch(file_name)
    return None if match is None else int(match[1])


def parse_renewal(file_name: str) -> tuple[int, int] | None:
    """The epoch and the time in a renewal's file name; None for other names."""
    match = _RENEWAL_NAME.fullmatch(file_name)
    return None if match is None else (int(match[1]), int(match[2]))
