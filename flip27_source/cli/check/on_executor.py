"""What ``flip27 check`` looks at on an executor, from the executor's Python.

``facts`` runs first, and is sent by value: flip27-source may be missing there. ``reach`` runs only if the
executor has the driver's contract version.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import (
    AccessError,
    DataLossError,
    Flip27Error,
    MissingStateError,
    RegistryError,
    SchemaError,
)
from flip27_source.executor.split_read import Item, conformed
from flip27_source.file_systems.paths import local_path
from flip27_source.reader import SourceReaderContext
from flip27_source.readers.files.input import CorruptFileError, open_raw
from flip27_source.snapshots.store import LocalStore, Store, open_store
from flip27_source.source import Source
from flip27_source.source_checks import ChecksSource, Finding, Status, failed, failure, ok, warning
from flip27_source.source_options import STATE_LOCATION
from flip27_source.spark.arrival import sent_by_value

from .time_limits import answered_items

STATE, SOURCE, DATA = "state location", "source", "data"
ANY_READER = "binary"
"""Locations can be checked without the real reader; this one reads any file."""


@sent_by_value
def facts(packages: list[str], contract: str, task: bytes | None) -> dict[str, Any]:
    """What this process sees. Values of JSON only; everything is imported here.

    Args:
        packages: names of modules, which are also the names of their distributions.
        contract: the driver's contract version. task: an ExecutorTask, pickled; None to look at nothing more.
    """
    import importlib
    import os
    import platform
    import shutil
    import socket
    import sys
    import tempfile
    import time
    from importlib import metadata

    def version(name: str) -> str | None:
        try:
            module = importlib.import_module(name)
        except ImportError:
            return None
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:  # on PYTHONPATH, or in SPARK_HOME
            return str(getattr(module, "__version__", "of unknown version"))

    found: dict[str, Any] = {
        "host": socket.gethostname(),
        "process": os.getppid(),
        "now": time.time(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "packages": {name: version(name) for name in packages},
        "free": {},
        "contract": None,
        "findings": [],
    }
    folders = [os.getcwd(), tempfile.gettempdir(), *os.environ.get("SPARK_LOCAL_DIRS", "").split(",")]
    for folder in filter(os.path.isdir, folders):
        found["free"][folder] = shutil.disk_usage(folder).free
    try:
        found["contract"] = importlib.import_module("flip27_source.contract_version").contract_version()
    except ImportError as error:
        found["problem"] = str(error)
    if task is not None and found["contract"] == contract:
        found["findings"] = importlib.import_module("flip27_source.cli.check.on_executor").reach(task)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorTask:
    """What an executor has to look at.

    Attributes:
        options: of the source.
        schema: with which the reader is opened; None if the user gave none.
        file: a file that the driver has listed; None if there is none.
        folder: of probe files in the state location; None without a state location.
        state: the driver's absolute path of the state location, if it is on a disk.
        token: the content of the probe files.
        needs_state: whether tasks of the source write to the state location.
        executor: the id of the executor, which becomes the name of its probe file.
    """

    options: dict[str, str]
    schema: pa.Schema | None = None
    file: FileSplit | None = None
    folder: str | None = None
    state: str | None = None
    token: bytes = b""
    needs_state: bool = False
    executor: str = ""

    def on(self, executor: str) -> bytes:
        """The task of one executor, pickled."""
        return pickle.dumps(replace(self, executor=executor))

    def store(self, source: Source) -> Store:
        """The state location, as a task opens it."""
        if self.state is not None:
            return LocalStore(self.state)
        location = source.options[STATE_LOCATION]
        assert location is not None, "there is a folder in it"
        return open_store(location, source.options.with_prefix("storage."))


def reach(pickled: bytes) -> list[dict[str, Any]]:
    """The findings of one executor, as JSON: their ``check`` is STATE, SOURCE or DATA."""
    task: ExecutorTask = pickle.loads(pickled)  # noqa: S301 - from the driver
    return [asdict(finding) for finding in _findings(task)]


def _findings(task: ExecutorTask) -> Iterator[Finding]:
    try:
        source = Source.resolve(task.options)
    except Flip27Error as error:
        yield failure(SOURCE, error)
        return
    if task.folder is not None:
        yield _state(task, source)
    yield _opened(task, source)
    if task.file is not None:
        yield _file(task.file, task, source)
    elif (checks := own_checks(source)) is not None:
        yield _source_checks(checks, source)


def _state(task: ExecutorTask, source: Source) -> Finding:
    """Read the driver's probe file, and write one for the driver to read."""
    try:
        store = task.store(source)
        if _sees_driver(store, task):
            store.create(f"{task.folder}/{task.executor}", task.token)
            return ok(STATE, "shared")
        return not_shared(f"a file that the driver has just written to {store.location} is not there", task)
    except Exception as error:  # noqa: BLE001 - file systems raise any error
        return failure(STATE, error)


def _sees_driver(store: Store, task: ExecutorTask) -> bool:
    try:
        return store.read_surely(f"{task.folder}/driver") == task.token
    except MissingStateError:
        return False


def not_shared(what: str, task: ExecutorTask) -> Finding:
    """The finding for a state location that driver and executor do not share."""
    found = f"{what}: the driver and this executor do not share that directory"
    remedy = "set stateLocation to a directory that all hosts mount at this path, or to object storage"
    if task.needs_state:
        return failed(STATE, found, remedy)
    return warning(
        STATE,
        f"{found}. Tasks of this source write no reports, so the query runs",
        f"{remedy}, before an option or a savepoint needs it",
    )


def _opened(task: ExecutorTask, source: Source) -> Finding:
    """Open the reader, which imports the packages that the options need."""
    schema = pa.schema([]) if task.schema is None else task.schema
    try:
        reader = source.reader_type()
        reader.open(SourceReaderContext(options=source.options, schema=schema))
        reader.close()
    except SchemaError as error:
        if task.schema is not None:
            return failure(SOURCE, error)
    except Exception as error:  # noqa: BLE001 - readers raise any error
        return failure(SOURCE, error)
    return ok(SOURCE, f"reader {source.reader_name} can be opened")


def _file(file: FileSplit, task: ExecutorTask, source: Source) -> Finding:
    try:
        if source.reader_name == ANY_READER:
            with open_raw(file, source.options) as stream:
                stream.read(1)
        else:
            schema = task.schema or source.reader_type.default_schema(source.options)
            first_rows(source, schema or pa.schema([]), file)
    except Exception as error:  # noqa: BLE001 - file systems and readers raise any error
        if task.schema is not None or isinstance(error, _WHATEVER_THE_SCHEMA):
            return _unread(file, failure(DATA, error))
    return ok(DATA, f"{file.path} can be read")


_WHATEVER_THE_SCHEMA = (OSError, AccessError, CorruptFileError, DataLossError, RegistryError)


def _unread(file: FileSplit, finding: Finding) -> Finding:
    found = f"{file.path}, which the driver has listed, cannot be read: {finding.found}"
    if local_path(file.path) is None or os.path.exists(file.path):
        return failed(DATA, found, finding.remedy)
    return failed(
        DATA, found, "set path to a directory that all hosts mount at this path, or to object storage"
    )


def first_rows(source: Source, schema: pa.Schema, split: FileSplit) -> Item | None:
    """The first rows of a file, read as in a task; None if it has none."""
    reader = source.reader_type()
    context = SourceReaderContext(options=source.options, schema=schema)
    reader.open(context)
    try:
        return next(iter(conformed(reader.read, split, [split], context)), None)
    finally:
        reader.close()


def own_checks(source: Source) -> type[ChecksSource] | None:
    """The class that has checks of its own: the enumerator, or else the reader."""
    kinds = (source.enumerator_type, source.reader_type)
    return next((kind for kind in kinds if issubclass(kind, ChecksSource)), None)


def own_findings(source: Source, checks: type[ChecksSource]) -> Iterator[Finding]:
    """What the class finds; a server that does not answer is an error after ten seconds."""
    return answered_items(
        f"the server of enumerator={source.enumerator_name}", lambda: checks.check_source(source.options)
    )


def _source_checks(checks: type[ChecksSource], source: Source) -> Finding:
    try:
        wrong = [item for item in own_findings(source, checks) if item.status is Status.FAILED]
    except Exception as error:  # noqa: BLE001 - the libraries of sources raise any error
        return failure(DATA, error)
    if wrong:
        return failed(DATA, f"{wrong[0].check}: {wrong[0].found}", wrong[0].remedy)
    return ok(DATA, f"the checks of {source.enumerator_name} pass")
