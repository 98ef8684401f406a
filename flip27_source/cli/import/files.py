"""``flip27 import spark-files`` and ``list``: files that another system has read become known files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from flip27_source.enumerators.files.migration.hadoop_uris import OurPaths
from flip27_source.enumerators.files.migration.imported_files import (
    CommonPath,
    Comparison,
    common_path,
    compared,
    state_with_known,
)
from flip27_source.enumerators.files.options import FILE_NAME_ONLY, PATHS
from flip27_source.savepoints.imported_state import write_imported
from flip27_source.snapshots.spark_checkpoint import LoggedBatch, newest_committed
from flip27_source.snapshots.spark_file_log import FileLog, log_offset, read_file_log
from flip27_source.snapshots.store import open_store
from flip27_source.source import Source
from flip27_source.source_options import PATH

from ..answers import Answer, Table
from ..commands import CHECK_FAILED, DONE, Storage, command, pairs, storage_options
from .chosen_source import chosen_source
from .group import group
from .lists import files_in_list

_SHOWN = 5

State = Annotated[
    str,
    typer.Option("--state", help="The stateLocation of the new query; the savepoint is written below it."),
]
Given = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="An option of the new query: path, to see what it would read first, and fileNameOnly or uid if "
        "they are set. Repeatable.",
    ),
]
Rewrite = Annotated[
    list[str] | None,
    typer.Option(
        "--path-rewrite",
        metavar="OLD=NEW",
        help="Replace the prefix OLD of file names by NEW in the new query, such as dbfs:/mnt/=/dbfs/mnt/. "
        "Repeatable.",
    ),
]
_ANSWERS = (
    "options (for the new query: stateLocation, path if it is known, and savepoint unless it is a dry run), "
    "files (how many are known), pattern (path, which may be null, and is_recursive), read_twice (a list of "
    "paths), listing (null without a path; found, known, new, gone, old)"
)
Execute = Annotated[
    bool, typer.Option("--execute", help="Write the savepoint; without this option nothing is written.")
]


@command(
    group,
    "spark-files",
    example="flip27 import spark-files --checkpoint /ckpt/old-orders --state /ckpt/orders/flip27 "
    "--option path=/landing/orders",
    answers=f"an object: {_ANSWERS}, batch_id (the last committed one).",
)
def import_spark_files(
    checkpoint: Annotated[
        str,
        typer.Option(
            "--checkpoint",
            metavar="SPARK_CHECKPOINT",
            help="The checkpoint location of a query of Spark's file source, which has to be stopped.",
        ),
    ],
    state: State,
    option: Given = None,
    path_rewrite: Rewrite = None,
    source: Annotated[
        int | None,
        typer.Option("--source", help="Which file source of the query, from 0, if it has more than one."),
    ] = None,
    execute: Execute = False,
    storage: Storage = None,
) -> Answer:
    """Prepare a query that continues after the files that a query of Spark's file source has read.

    Writes a savepoint that the new query starts from: it knows every file of the old query's committed
    batches. Files of a batch that the old query has planned and not committed are read by the new query.
    With `--option path=...` existing files are compared with the known ones. Exit code 3: some files
    would be read twice, or the path contains no known file.
    """
    committed, log = _log_of(checkpoint, source, storage)
    ours = OurPaths(pairs(path_rewrite, "--path-rewrite"))
    known = {ours(file.path): file.modified_ms for file in log.committed}
    imported = _Import(
        known=known,
        unsure=sorted({ours(file.path) for file in log.planned} - known.keys()),
        why_unsure=f"batch {committed.batch_id + 1} of the old query is planned and not committed: its files "
        "are read by the new query. If the sink has them already, let the old query commit the batch first",
        source=_source(option, state, storage),
        state=state,
    )
    return imported.answer({"batch_id": committed.batch_id}, storage, execute=execute)


@command(
    group,
    "list",
    example="flip27 import list --file cloud_files_state.parquet --state /ckpt/orders/flip27 "
    "--option path=s3://in/orders",
    answers=f"an object: {_ANSWERS}.",
)
def import_list(
    file: Annotated[
        str,
        typer.Option(
            "--file",
            metavar="LIST",
            help="A list of the files that were read: Parquet or CSV with a column of their paths, a folder "
            "of such files, a text file with a path on each line, or - for such lines on standard input.",
        ),
    ],
    state: State,
    option: Given = None,
    path_rewrite: Rewrite = None,
    column: Annotated[str, typer.Option("--column", help="The column of the paths.")] = "path",
    encoded: Annotated[
        bool, typer.Option("--encoded", help="The paths are URIs: a%20b is the file with the name 'a b'.")
    ] = False,
    uncommitted: Annotated[
        bool,
        typer.Option(
            "--uncommitted",
            help="Files whose commit_time is null were read too: the sink has all files of the list.",
        ),
    ] = False,
    execute: Execute = False,
    storage: Storage = None,
) -> Answer:
    """Prepare a query that continues after the files of a list, such as Auto Loader's `cloud_files_state`.

    Writes a savepoint that the new query starts from: it knows every file of the list. If the list has the
    column commit_time, as Auto Loader's list does, files without such a time are read by the new query. Exit
    code 3: some files would be read twice, or the path contains no known file.
    """
    listed_files = files_in_list(file, column, storage_options(storage))
    ours = OurPaths(pairs(path_rewrite, "--path-rewrite"), encoded=encoded)
    known = {ours(name): modified_ms for name, modified_ms in listed_files.read.items()}
    unsure = {ours(name) for name in listed_files.uncommitted} - known.keys()
    if uncommitted:
        known |= dict.fromkeys(unsure, 0)
    imported = _Import(
        known=known,
        unsure=[] if uncommitted else sorted(unsure),
        why_unsure="files whose commit_time is null are read by the new query. If the sink has them already, "
        "add --uncommitted",
        source=_source(option, state, storage),
        state=state,
    )
    return imported.answer({}, storage, execute=execute)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Import:
    """An import of known files.

    Attributes:
        known: their modification times, in milliseconds since the epoch, by path; 0 if it is not known.
        unsure: files that the other system may have read, and that the new query reads.
        why_unsure: the reason for that.
        source: the source of the new query. state: its state location.
    """

    known: Mapping[str, int]
    unsure: Sequence[str]
    why_unsure: str
    source: Source
    state: str

    def answer(self, more: Mapping[str, Any], storage: list[str] | None, *, execute: bool) -> Answer:
        """Report what the new query would read; with ``execute``, write its savepoint first."""
        found = self._comparison()
        twice = [*self.unsure, *(() if found is None else found.lookalikes)]
        pattern = common_path(self.known)
        savepoint = self._written(storage) if execute else None
        options = {"stateLocation": self.state} | ({} if savepoint is None else {"savepoint": savepoint})
        path = self.source.options[PATH] or pattern.path
        if path is not None:
            options["path"] = path
            if self.source.options[PATH] is None and pattern.is_recursive:
                options["recursiveFileLookup"] = "true"
        listing = None if found is None else {
            "found": found.found, "known": found.known, "new": len(found.new), "gone": found.gone,
            "old": found.old,
        }  # fmt: skip
        return Answer(
            data={
                "options": options,
                "files": len(self.known),
                "pattern": pattern,
                "read_twice": twice,
                "listing": listing,
                **more,
            },
            shown=[
                Table(columns=("files", "number"), rows=self._numbers(found)),
                *(f"would be read twice: {path}" for path in twice[:_SHOWN]),
                *([f"... and {len(twice) - _SHOWN} more"] if len(twice) > _SHOWN else []),
                *(f'.option("{name}", {value!r})' for name, value in options.items()),
            ],
            notes=self._notes(found, pattern, is_dry_run=not execute),
            exit_code=CHECK_FAILED if twice or self._is_elsewhere(found) else DONE,
        )

    def _comparison(self) -> Comparison | None:
        options = self.source.options
        if options[PATH] is None and not options[PATHS]:
            return None
        return compared(self.known, options)

    def _written(self, storage: list[str] | None) -> str:
        by_name = self.source.options[FILE_NAME_ONLY]
        newest_us = max(self.known.values(), default=0) * 1000
        state = state_with_known(self.known, newest_us=newest_us, name_only=by_name)
        target = open_store(self.state, storage_options(storage))
        written = write_imported(target, self.source, state, finished=len(self.known), any_reader=True)
        return f"{self.state.rstrip('/')}/{written.folder}"

    def _numbers(self, found: Comparison | None) -> list[tuple[str, int]]:
        numbers = [("known", len(self.known)), ("may have been read, will be read", len(self.unsure))]
        if found is None:
            return numbers
        return [
            *numbers,
            ("in the path", found.found),
            ("in the path and known", found.known),
            ("in the path and new", len(found.new)),
            ("known and not in the path", found.gone),
            ("new, with name and time of a file that was read elsewhere", len(found.lookalikes)),
        ]

    def _notes(self, found: Comparison | None, pattern: CommonPath, *, is_dry_run: bool) -> list[str]:
        notes = [self.why_unsure] if self.unsure else []
        if pattern.path is None:
            notes.append("the known files have no directory in common")
        else:
            below = " and below" if pattern.is_recursive else ""
            notes.append(f"the known files are in {pattern.path}{below}")
        if found is None:
            notes.append("add --option path=PATH to compare the files that exist with those that are known")
        else:
            if self._is_elsewhere(found):
                notes.append(
                    "the path contains none of the known files: check it, or give --path-rewrite OLD=NEW if "
                    "their names begin differently here"
                )
            if found.old:
                notes.append(
                    f"{found.old} of the new files are older than the newest known file by more than 7 days, "
                    "and Spark's source leaves such files out: set maxFileAge=7d to do the same"
                )
        notes.append(
            "the new query needs a new checkpoint location, and its batches are numbered from 0: a sink that "
            "skips batches by their number, such as a directory of Spark's file sink, has to be a new one"
        )
        if is_dry_run:
            notes.append("dry run: nothing was written; add --execute to write the savepoint")
        return notes

    def _is_elsewhere(self, found: Comparison | None) -> bool:
        return found is not None and bool(self.known and found.found) and not found.known


def _log_of(checkpoint: str, source: int | None, storage: list[str] | None) -> tuple[LoggedBatch, FileLog]:
    store = open_store(checkpoint, storage_options(storage))
    committed = newest_committed(store)
    offsets = [
        (name, offset) for name, line in committed.lines.items() if (offset := log_offset(line)) is not None
    ]
    name, offset = chosen_source(
        offsets,
        source,
        kind="file",
        batch=f"batch {committed.batch_id} in {store.location}",
        remedy="give the checkpoint location of a query that reads files with Spark's own source, and "
        "--source from 0",
    )
    return committed, read_file_log(store, name, offset)


def _source(option: list[str] | None, state: str, storage: list[str] | None) -> Source:
    given = {name: str(value) for name, value in pairs(option, "--option").items()}
    of_storage = {f"storage.{name}": value for name, value in pairs(storage, "--storage").items()}
    reader = {} if "reader" in given else {"reader": "binary"}
    return Source.resolve({**reader, **of_storage, **given, "enumerator": "files", "stateLocation": state})
