"""``flip27``: the command line. Commands return values; what they print is decided here alone."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from flip27_source import __version__, savepoints
from flip27_source.errors import Flip27Error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it did what it was asked for."""
    chosen = _parser().parse_args(arguments)
    try:
        if (chosen.command, chosen.action) == ("savepoint", "create"):
            made = savepoints.create(
                state=chosen.state,
                to=chosen.to,
                checkpoint=chosen.checkpoint,
                lineage=chosen.lineage,
                storage_options=dict(chosen.storage),
            )
            print(made.directory)
            said = f"checkpoint {made.checkpoint_id}"
            if made.batch_id is None:
                said += ", the newest that is surely complete (give --checkpoint for the very last batch)"
            else:
                said += f", the state after batch {made.batch_id}"
            print(said, file=sys.stderr)
    except Flip27Error as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="flip27", description="State of flip27 sources.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    savepoint = commands.add_parser("savepoint", help="make savepoints")
    actions = savepoint.add_subparsers(dest="action", required=True)
    create = actions.add_parser(
        "create",
        help="copy the newest complete checkpoint of a query, running or stopped, elsewhere",
    )
    create.add_argument("--state", required=True, help="the query's stateLocation")
    create.add_argument("--to", required=True, help="where the savepoint gets a directory of its own")
    create.add_argument(
        "--checkpoint", help="the query's checkpointLocation; found by itself where it holds the state"
    )
    create.add_argument("--lineage", help="which one, where several queries share the state location")
    create.add_argument(
        "--storage",
        action="append",
        type=_storage_option,
        default=[],
        metavar="NAME=VALUE",
        help="an option of the file system, as storage.NAME of the source; VALUE may be JSON",
    )
    return parser


def _storage_option(text: str) -> tuple[str, object]:
    name, found, value = text.partition("=")
    if not found:
        raise argparse.ArgumentTypeError(f"NAME=VALUE is expected, not {name!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


if __name__ == "__main__":
    sys.exit(main())
