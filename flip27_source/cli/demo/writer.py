"""The demo's writer: a process that writes files of JSON lines into a landing folder.

Each file is written under a hidden name and then renamed, so that it appears as a whole.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from .processes import obey_parent

_CUSTOMERS = ("Ada", "Blaise", "Carl", "Émilie", "Grace", "Sofja", "李善兰", 'Bobby "Tables"')


def row(number: int) -> dict[str, object]:
    """The row with this id; the same at every call."""
    return {
        "id": number,
        "customer": _CUSTOMERS[number % len(_CUSTOMERS)],
        "amount": number * 7919 % 100_000 / 100,
        "at": f"2026-01-01T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}.000Z",
    }


def write_file(landing: Path, file: int, rows: int) -> None:
    """Write file number ``file``, then make it visible as a whole."""
    first = file * rows
    lines = [json.dumps(row(number), ensure_ascii=False) for number in range(first, first + rows)]
    hidden = landing / f".{file:06d}.json.writing"
    hidden.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    hidden.rename(landing / f"{file:06d}.json")


def write_files(landing: Path, *, files: int, rows: int, over_s: float) -> None:
    """Write all files, evenly spread over ``over_s`` seconds."""
    began = time.monotonic()
    for file in range(files):
        time.sleep(max(0.0, began + over_s * file / files - time.monotonic()))
        write_file(landing, file, rows)


def main() -> None:
    """The writer's process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("landing", type=Path)
    parser.add_argument("--files", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--over-s", type=float, required=True)
    arguments = parser.parse_args()
    obey_parent(lambda _line: None)
    write_files(arguments.landing, files=arguments.files, rows=arguments.rows, over_s=arguments.over_s)


if __name__ == "__main__":
    main()
