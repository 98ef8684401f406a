"""Files that another system has read become known files of a new query: the answer of the command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flip27_source.enumerators.files.migration.known_files import (
    CommonPath,
    Comparison,
    common_path,
    compared,
    state_with_known,
)
from flip27_source.enumerators.files.options import FILE_NAME_ONLY, PATHS
from flip27_source.savepoints.imported_state import write_imported
from flip27_source.snapshots.store import Store
from flip27_source.source import Source
from flip27_source.source_options import PATH

from ..commands import CHECK_FAILED, DONE, as_code, some
from ..rendering import Answer, Table

_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFiles:
    """An import of known files.

    Attributes:
        known: their modification times, in milliseconds since the epoch, by path; 0 if it is not known.
        unsure: files that the other system may have read, and that the new query reads.
        why_unsure: the reason for that.
    """

    known: Mapping[str, int]
    unsure: Sequence[str]
    why_unsure: str

    def answer(self, source: Source, state: str, store: Store | None, more: Mapping[str, Any]) -> Answer:
        """Report what the source of the new query would read, and write its savepoint first.

        Args:
            state: the state location of the new query. store: the same; None for a dry run.
            more: further fields of the data.
        """
        has_path = source.options[PATH] is not None or source.options[PATHS]
        comparison = compared(self.known, source.options) if has_path else None
        twice = [*self.unsure, *(() if comparison is None else comparison.lookalikes)]
        pattern = common_path(self.known)
        options = {"stateLocation": state}
        if store is not None:
            options["savepoint"] = f"{state.rstrip('/')}/{self._written(source, store)}"
        path = source.options[PATH] or pattern.path
        if path is not None:
            options["path"] = path
            if source.options[PATH] is None and pattern.is_recursive:
                options["recursiveFileLookup"] = "true"
        listing = None if comparison is None else {
            "found": comparison.found, "known": comparison.known, "new": len(comparison.new),
            "gone": comparison.gone, "old": comparison.old,
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
                Table(columns=("files", "number"), rows=self._numbers(comparison)),
                *some([f"would be read twice: {path}" for path in twice], _SHOWN),
                *as_code(options),
            ],
            notes=self._notes(comparison, pattern, is_dry_run=store is None),
            exit_code=CHECK_FAILED if twice or self._is_elsewhere(comparison) else DONE,
        )

    def _written(self, source: Source, store: Store) -> str:
        newest_us = max(self.known.values(), default=0) * 1000
        state = state_with_known(self.known, newest_us=newest_us, name_only=source.options[FILE_NAME_ONLY])
        return write_imported(store, source, state, finished=len(self.known)).folder

    def _numbers(self, comparison: Comparison | None) -> list[tuple[str, int]]:
        numbers = [("known", len(self.known)), ("may have been read, will be read", len(self.unsure))]
        if comparison is None:
            return numbers
        return [
            *numbers,
            ("in the path", comparison.found),
            ("in the path and known", comparison.known),
            ("in the path and new", len(comparison.new)),
            ("known and not in the path", comparison.gone),
            ("new, with name and time of a file that was read elsewhere", len(comparison.lookalikes)),
        ]

    def _notes(self, comparison: Comparison | None, pattern: CommonPath, *, is_dry_run: bool) -> list[str]:
        notes = [self.why_unsure] if self.unsure else []
        if pattern.path is None:
            notes.append("the known files have no directory in common")
        else:
            below = " and below" if pattern.is_recursive else ""
            notes.append(f"the known files are in {pattern.path}{below}")
        if comparison is None:
            notes.append("add --option path=PATH to compare the files that exist with those that are known")
        else:
            if self._is_elsewhere(comparison):
                notes.append(
                    "the path contains none of the known files: check it, or give --path-rewrite OLD=NEW if "
                    "their names begin differently here"
                )
            if comparison.old:
                notes.append(
                    f"{comparison.old} of the new files are older than the newest known file by more than 7 "
                    "days, and Spark's source leaves such files out: set maxFileAge=7d to do the same"
                )
        notes.append(
            "the new query needs a new checkpoint location, and its batches are numbered from 0: a sink that "
            "skips batches by their number, such as a directory of Spark's file sink, has to be a new one"
        )
        if is_dry_run:
            notes.append("dry run: nothing was written; add --execute to write the savepoint")
        return notes

    def _is_elsewhere(self, comparison: Comparison | None) -> bool:
        return comparison is not None and bool(self.known and comparison.found) and not comparison.known
