"""Names of enumerators, readers and queues: built-in names, entry points, ``package.module:Class``.

Lazy: a class is imported only when it is needed.
"""

from __future__ import annotations

import difflib
import importlib
import re
from typing import Any

from .enumerator import SplitEnumerator
from .errors import RegistryError
from .notifications import NotificationQueue
from .reader import SplitReader

ENUMERATOR_GROUP = "flip27_source.enumerators"
READER_GROUP = "flip27_source.readers"
NOTIFICATION_GROUP = "flip27_source.notification_queues"

_BUILT_IN = {
    ENUMERATOR_GROUP: {
        "files": "flip27_source.enumerators.files.enumerator:FilesEnumerator",
        "http": "flip27_source.enumerators.http_api.enumerator:HttpEnumerator",
        "hybrid": "flip27_source.enumerators.hybrid.enumerator:HybridEnumerator",
        "kafka": "flip27_source.enumerators.kafka.enumerator:KafkaEnumerator",
        "mysql": "flip27_source.enumerators.mysql.enumerator:MysqlEnumerator",
        "postgres": "flip27_source.enumerators.postgres.enumerator:PostgresEnumerator",
        "sequence": "flip27_source.enumerators.sequence:SequenceEnumerator",
        "sql": "flip27_source.enumerators.sql.enumerator:SqlEnumerator",
    },
    READER_GROUP: {
        "arrow": "flip27_source.readers.columnar.arrow_files:ArrowReader",
        "avro": "flip27_source.readers.columnar.avro:AvroReader",
        "binary": "flip27_source.readers.binary:BinaryReader",
        "csv": "flip27_source.readers.csv_lines.reader:CsvLinesReader",
        "feather": "flip27_source.readers.columnar.arrow_files:ArrowReader",
        "http": "flip27_source.readers.http_api.reader:HttpReader",
        "hybrid": "flip27_source.readers.hybrid:HybridReader",
        "json": "flip27_source.readers.json_lines.reader:JsonLinesReader",
        "kafka": "flip27_source.readers.kafka.reader:KafkaReader",
        "orc": "flip27_source.readers.columnar.orc:OrcReader",
        "parquet": "flip27_source.readers.columnar.parquet:ParquetReader",
        "mysql": "flip27_source.readers.mysql.reader:MysqlReader",
        "postgres": "flip27_source.readers.postgres.reader:PostgresReader",
        "sequence": "flip27_source.readers.sequence:SequenceReader",
        "splits": "flip27_source.readers.splits:SplitsReader",
        "sql": "flip27_source.readers.sql.reader:SqlReader",
        "text": "flip27_source.readers.text:TextReader",
    },
    NOTIFICATION_GROUP: {
        "azurequeue": "flip27_source.enumerators.files.notifications.azure_queue:AzureQueue",
        "sqs": "flip27_source.enumerators.files.notifications.sqs:SqsQueue",
    },
}
_BASE: dict[str, type[Any]] = {
    ENUMERATOR_GROUP: SplitEnumerator,
    READER_GROUP: SplitReader,
    NOTIFICATION_GROUP: NotificationQueue,
}
_WORD = {ENUMERATOR_GROUP: "enumerator", READER_GROUP: "reader", NOTIFICATION_GROUP: "notificationService"}

_HOME = {NOTIFICATION_GROUP: "flip27_source.notifications"}


def find_enumerator(name: str) -> type[SplitEnumerator[Any]]:
    """The enumerator class with this name.

    Raises:
        RegistryError: the name is unknown, the class cannot be imported, or is not a SplitEnumerator.
    """
    return _find(ENUMERATOR_GROUP, name)


def find_reader(name: str) -> type[SplitReader[Any]]:
    """The reader class with this name; errors as for :func:`find_enumerator`."""
    return _find(READER_GROUP, name)


def find_notification_queue(name: str) -> type[NotificationQueue]:
    """The class of the queues of a service; errors as for :func:`find_enumerator`."""
    return _find(NOTIFICATION_GROUP, name)


def known_names(group: str) -> list[str]:
    """Built-in names and entry points of a group, sorted."""
    return sorted(_BUILT_IN[group].keys() | {point.name for point in _entry_points(group=group)})


def registered_names(group: str, *, distribution: str | None = None) -> list[str]:
    """Names that installed packages register in a group and that are not built in, sorted.

    Args:
        distribution: only names of this package, by its name on PyPI, in any spelling.
    """
    names = {
        point.name
        for point in _entry_points(group=group)
        if distribution is None or (point.dist and _plain(point.dist.name) == _plain(distribution))
    }
    return sorted(names - _BUILT_IN[group].keys())


def canonical_name(group: str, name: str | None) -> str | None:
    """The canonical spelling of a built-in name, which is case-insensitive."""
    return name.lower() if name is not None and name.lower() in _BUILT_IN[group] else name


def _entry_points(**chosen: str) -> Any:
    # Imported here: the import takes 15 ms, and built-in names do not need it.
    from importlib.metadata import entry_points

    return entry_points(**chosen)


def _plain(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _find(group: str, name: str) -> type[Any]:
    path = _BUILT_IN[group].get(name.lower()) or (name if ":" in name else None)
    path = path or next((point.value for point in _entry_points(group=group, name=name)), None)
    if path is not None:
        return _checked(group, name, _imported(group, name, path))
    near = difflib.get_close_matches(name, known_names(group), n=1)
    raise RegistryError(
        f"{_WORD[group]} {name!r} is unknown" + (f"; did you mean {near[0]!r}?" if near else ""),
        remedy=f"use one of {', '.join(known_names(group))}, or package.module:Class"
        + (
            ""
            if group == NOTIFICATION_GROUP
            else f", or flip27_source.register(spark, name, {_WORD[group]}=YourClass)"
        ),
    )


def _imported(group: str, name: str, path: str) -> Any:
    module_name, _, class_name = path.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *class_name.split("."))):
        raise RegistryError(
            f"{_WORD[group]} {name!r} is not a name of the form package.module:Class",
            remedy="write the full import path of the module, a colon, and the name of the class",
        )
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise RegistryError(
            f"{_WORD[group]} {name!r} cannot be imported from {path}: {error}",
            remedy="install its package (and the extra it needs) with pip on the driver and on "
            "every executor node; --py-files does not reach the coordinator process",
        ) from error
    target: Any = module
    for part in class_name.split("."):
        if not hasattr(target, part):
            raise RegistryError(
                f"{_WORD[group]} {name!r}: module {module_name} has no {class_name}",
                remedy="write package.module:Class, with the name of a class in that module",
            )
        target = getattr(target, part)
    return target


def _checked(group: str, name: str, registered: Any) -> type[Any]:
    base = _BASE[group]
    if not isinstance(registered, type) or not issubclass(registered, base):
        raise RegistryError(
            f"{_WORD[group]} {name!r} is {registered!r}, which is not a {base.__name__}",
            remedy=f"derive the class from {_HOME.get(group, 'flip27_source')}.{base.__name__}",
        )
    missing = sorted(getattr(registered, "__abstractmethods__", ()))
    if missing:
        raise RegistryError(
            f"{_WORD[group]} {name!r} cannot be created: {registered.__qualname__} does not define "
            f"{', '.join(missing)}",
            remedy="define the missing methods in the class",
        )
    return registered
