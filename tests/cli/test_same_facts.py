"""The four ways to look at a source say the same, and it is true: ``watch``, ``state show``, ``ui`` and
``export-metrics``, over random lives of queries.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import flip27
from tests.cli.query_lives import Life
from tests.ui.served import Clock, pages_of

_ACTS = 12
_STATUSES = ("quarantined", "ignored", "live", "finished", "waiting")


@pytest.mark.parametrize("seed", range(16))
def test_the_four_ways_to_look_say_the_same_and_it_is_true(tmp_path: Path, seed: int) -> None:
    life = Life.begun(tmp_path, seed)
    for _ in range(_ACTS):
        life.acts()
        frames = flip27("watch", life.query.checkpoint, "--json")
        if frames.code == 0:  # before the first batch nothing is there
            (frame,) = frames.data
            error = frame["error"] and frame["error"].partition(":")[0]
            condition, expected = life.truth
            assert frame["condition"] == condition, life.told
            # Tasks of a driver that was killed may go on, and fail.
            assert error == expected or condition in ("lost", "unknown"), life.told
            wrong = differences(life.query.checkpoint, frame)
            assert wrong == [], life.told
    life.engine.stop()


def differences(checkpoint: Path, frame: dict[str, Any]) -> list[str]:
    """What the other ways to look say otherwise, or do not say, than ``watch --json``."""
    (shown,) = flip27("state", "show", checkpoint, "--json").data
    source, metrics = shown["source"], exported(checkpoint)
    same = {
        "driver": (shown["driver"], frame["driver"]),
        "condition": (source["driver"], frame["condition"]),
        "error": (source["error"], frame["error"]),
        "remedy": (source["remedy"], frame["remedy"]),
        "condition of the exporter": (metrics.get(f"driver_condition {frame['condition']}"), 1),
        "error of the exporter": (
            any("driver_error" in name for name in metrics),
            frame["error"] is not None,
        ),
        "failed checkpoints": (source["failed_checkpoints"], frame["failed_checkpoints"]),
        "complete": ((shown["newest_complete"] or {}).get("checkpoint_id"), frame["complete_id"]),
        "checkpoint of the exporter": (metrics.get("checkpoint_id"), frame["checkpoint_id"]),
        "backlog of the exporter": (metrics.get("backlog_splits"), frame["backlog"]),
        "rows of the exporter": (metrics.get("backlog_rows"), frame["backlog_rows"]),
        "bytes of the exporter": (metrics.get("backlog_bytes"), frame["backlog_bytes"]),
        "losses of the exporter": (metrics.get("data_losses", 0), frame["data_losses"]),
        **{f"{name} of the exporter": (metrics.get(f"splits {name}"), frame[name]) for name in _STATUSES},
        "listed in quarantine": (
            len(flip27("state", "splits", checkpoint, "--status", "quarantined", "--json").data),
            frame["quarantined"],
        ),
    }
    return [f"{name}: {a!r}, not {b!r}" for name, (a, b) in same.items() if a != b] + unsaid(
        checkpoint, frame
    )


def unsaid(checkpoint: Path, frame: dict[str, Any]) -> list[str]:
    """What a person does not see."""
    pages = pages_of([checkpoint])
    pages.sources.look(Clock()())
    texts = {
        "watch": flip27("watch", checkpoint).out,
        "state show": flip27("state", "show", checkpoint).out,
        "ui": html.unescape(re.sub("<[^>]*>", "", pages.overview())),
    }
    undelivered = (frame["quarantined"], frame["ignored"], frame["data_losses"])
    numbers = [
        f"{name}{number:,}{unit}{'' if number == 1 else 's'}"
        for name, number, unit in zip(
            ("quarantined", "ignored", "data lost"), undelivered, ("split", "split", "time"), strict=True
        )
    ]
    backlog = f"backlog{frame['backlog']:,}split"
    expected = {
        "watch": [*numbers, backlog],
        "state show": [*numbers, backlog],
        "ui": ["{} quarantined, {} ignored data lost {} time".format(*undelivered), backlog],
    }
    said = [frame["driver"], *(text for text in (frame["error"], frame["remedy"]) if text is not None)]
    return [
        f"{name} does not say {text}"
        for name, shown in texts.items()
        for text in (*said, *expected[name])
        if squeezed(text) not in squeezed(shown)
    ]


def squeezed(text: str) -> str:
    """Without what lays it out."""
    return re.sub(r"\\n|[\s│╭╮╰╯─━]", "", text).lower()


def exported(checkpoint: Path) -> dict[str, float]:
    """The values of metrics, by name and the label that is not query or source."""
    found = {}
    for line in flip27("export-metrics", "--once", "--checkpoint-location", checkpoint).out.splitlines():
        match = re.fullmatch(r"flip27_(\w+)\{(.*)\} (\S+)", line)
        if match is not None:
            labels = [
                value
                for name, value in re.findall(r'(\w+)="([^"]*)"', match[2])
                if name not in ("query", "source")
            ]
            found[" ".join((match[1], *labels))] = float(match[3])
    return found
