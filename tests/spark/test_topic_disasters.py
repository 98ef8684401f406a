"""Processes are killed while topics are copied: a short form of ``make soak ARGS="--kafka 50"``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.topic_disasters import BROKER, topic_disasters

MOVES = (BROKER, "worker", "driver", BROKER)


@pytest.mark.slow  # a short form of the soak
def test_copies_of_topics_stay_exact_while_processes_and_the_broker_are_killed(tmp_path: Path) -> None:
    with topic_disasters(tmp_path, seed=27, kills=len(MOVES), say=print, longest_pause_s=0.5) as disasters:
        outcome = disasters.run(MOVES)
    assert outcome.is_exact, "\n".join(outcome.lines())
    assert outcome.kills.total() == len(MOVES)
    assert outcome.batches >= len(MOVES)
    assert outcome.counts["topic-copy"].rows > 0
