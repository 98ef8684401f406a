"""The entry point of ``flip27``; ``app`` defines the commands. Errors name packages of missing libraries."""

from __future__ import annotations

import sys
from collections.abc import Sequence

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
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
