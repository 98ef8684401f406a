"""The entry point of ``flip27``; ``app`` defines the commands. Errors name packages of missing libraries."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Sequence

LEFT_ALONE = "flip27: its end is not waited for"
"""The name of threads that may wait forever for a server."""
_LIBRARIES = frozenset({"typer", "rich"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code (docs/cli.md)."""
    try:
        # Help can be printed without rich, but results of commands cannot, so no command starts without it.
        import rich  # noqa: F401

        from .app import run
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in _LIBRARIES:
            raise
        print(
            f"flip27: the package {library} is missing.\n  What to do: pip install 'flip27-source[cli]'",
            file=sys.stderr,
        )
        return 1
    code = run(arguments)
    if arguments is None and any(thread.name == LEFT_ALONE for thread in threading.enumerate()):
        # At the end of Python, the library that the thread has called would wait for that server once more.
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
