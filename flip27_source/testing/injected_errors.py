"""Injected errors: every line of a reader fails once, while it reads.

A server that closes a connection, or a file system that does not answer, must not look like the end of a
split. The error has to leave ``read``, so that Spark retries the task, or to change nothing. Only lines in
the files of an author's classes fail, not those of the libraries that they call.
"""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType, ModuleType
from typing import Any

from ..errors import Flip27Error
from ..events import ReturnSplit
from ..reader import SplitReader
from .law import Disagreement, agree_in_any_order
from .reader_run import ReaderRun, Share

MOST_ERRORS = 40
FEW_ERRORS = 16
"""Maximum number of errors in a fast check, because each of them opens a reader."""

Place = tuple[CodeType, int]
"""A line of the code of a function."""


class TracedLines:
    """Sees the lines of an author's files while they run on this thread.

    Args:
        files: names of the files.
    """

    def __init__(self, files: set[str]) -> None:
        self._files = files

    @contextmanager
    def traced(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(before)

    def _call(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        return self._line if frame.f_code.co_filename in self._files else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        raise NotImplementedError


class Lines(TracedLines):
    """The lines of an author's files that run, and the error that one of them raises.

    Args:
        files: names of the files.
        error: raised once, at the second time that a line runs, or at the first if there is no second.

    Attributes:
        passed: how often each line has run.
        named: the exceptions that the code names, such as those of a client library.
        failed: whether the error was raised.
    """

    def __init__(
        self, files: set[str], place: Place | None = None, nth: int = 1, error: Exception | None = None
    ) -> None:
        super().__init__(files)
        self._place = place
        self._nth = nth
        self._error = error
        self.passed: dict[Place, int] = {}
        self.named: dict[Place, list[type[Exception]]] = {}
        self.failed = False

    def _line(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        if event == "line" and not self.failed:
            place = (frame.f_code, frame.f_lineno)
            self.passed[place] = self.passed.get(place, 0) + 1
            if place not in self.named:
                self.named[place] = list(_named_errors(frame))
            if place == self._place and self.passed[place] == self._nth and self._error is not None:
                self.failed = True
                raise self._error
        return self._line


def check_errors(
    reader_type: type[SplitReader[Any]],
    run: Callable[[], ReaderRun],
    splits: Sequence[Any],
    *,
    most: int = MOST_ERRORS,
) -> None:
    """Let the lines fail that run when these splits are read.

    Raises:
        Disagreement: an error was swallowed, and rows are missing.
    """
    files = files_of(reader_type)
    left = itertools.count(1)
    known: set[Place] = set()
    for split in splits if files else ():
        lines = Lines(files)
        with run() as undisturbed, lines.traced():
            expected = undisturbed.read(split)
        for place, times in lines.passed.items():
            if place in known or not expected.rows:
                continue
            known.add(place)
            kinds: list[type[Exception]] = [ConnectionResetError, *lines.named[place]]
            for kind in kinds:
                if next(left) > most:
                    return
                _check_error(run, split, expected, Lines(files, place, min(times, 2), _made(kind)), place)


def _check_error(
    run: Callable[[], ReaderRun], split: Any, expected: Share, lines: Lines, place: Place
) -> None:
    try:
        with run() as disturbed, lines.traced():
            share = disturbed.read(split)
    except Exception:  # noqa: BLE001 - the error has left read, as it should
        return
    kept = share.marks and share.marks[-1][0] is not None and share.marks[-1][1] == len(share.rows)
    if not lines.failed or kept or share.returned or share.quarantined:
        return  # with a Progress after the last row, the next batch reads on from there
    try:
        agree_in_any_order(f"rows of split {split.split_id!r}", share.rows, expected.rows)
    except Disagreement as difference:
        code, number = place
        raise Disagreement(
            f"{type(lines._error).__name__} in line {number} of {code.co_qualname} ({code.co_filename}) is "
            f"swallowed, as if the split ended there: {difference}. Let the error pass, and Spark retries "
            "the task"
        ) from None


def files_of(reader_type: type) -> set[str]:
    """The files of a reader's classes, without those of this package and of Python."""
    files = set()
    for kind in reader_type.__mro__:
        package = kind.__module__.partition(".")[0]
        if package == "flip27_source" or package in sys.stdlib_module_names:
            continue
        try:
            files.add(inspect.getfile(kind))
        except (TypeError, OSError):
            continue  # a class of a notebook's cell has no file
    return files


def _named_errors(frame: FrameType) -> Iterator[type[Exception]]:
    """The exceptions that the code of a function names: those of clients, and of the operating system."""
    names = frame.f_code.co_names
    found = [frame.f_globals.get(name) for name in names]
    inside = [getattr(item, name, None) for item in found if isinstance(item, ModuleType) for name in names]
    errors = [item for item in (*found, *inside) if isinstance(item, type) and issubclass(item, Exception)]
    for kind in dict.fromkeys(errors):
        is_ours = issubclass(kind, Flip27Error | ReturnSplit)
        if not is_ours and kind.__module__ != "builtins" and _made(kind) is not None:
            yield kind


def _made(kind: type[Exception]) -> Exception | None:
    try:
        return kind("an error that the check has injected")
    except Exception:  # noqa: BLE001 - an exception that wants other arguments is left out
        return None
