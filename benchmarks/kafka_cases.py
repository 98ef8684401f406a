"""The Kafka cases: what is measured, what it is compared with, and the targets.

The broker is Tansu, in memory, with clients in other processes on the same two cores.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from .kafka import Spec
from .outcomes import Outcome, Target
from .server_cases import alone, beside, measured
from .sizes import Sizes

HALF = Target("at least", 0.5)
MOST_OF_FILE = Target("at least", 0.7)
TWO_REQUESTS = Target("at most", 2, "requests")
LATENCY = Target("at most", 300, "ms")
PLANNING = Target("at most", 100, "ms")
OFFSET = Target("at most", 4_096, "bytes")

IDLE_PARTITIONS = 1_000
MESSAGE_PARTITIONS = 8


def kafka_outcomes(sizes: Sizes, conf: Mapping[str, str]) -> list[Outcome]:
    """Measure the Kafka cases; return their six lines of the table."""
    rounds = sizes.rounds
    messages, values, idle, latency, planning = measured(
        "benchmarks.kafka",
        Spec(
            what="messages",
            conf=dict(conf),
            count=sizes.kafka_messages,
            partitions=MESSAGE_PARTITIONS,
            rounds=rounds,
        ),
        Spec(what="json", conf=dict(conf), count=sizes.kafka_values, partitions=2, rounds=rounds),
        Spec(what="idle", conf=dict(conf), count=sizes.kafka_idle_s, partitions=IDLE_PARTITIONS, rounds=1),
        Spec(what="latency", conf=dict(conf), count=sizes.kafka_latencies, partitions=1, rounds=1),
        Spec(
            what="planning",
            conf=dict(conf),
            count=sizes.kafka_partitions,
            partitions=sizes.kafka_partitions,
            rounds=rounds,
        ),
        shares_session=sizes.shares_sessions,
    )
    milliseconds = sorted(1000 * second for second in latency.ours)
    p50 = statistics.median(milliseconds)
    p99 = milliseconds[min(len(milliseconds) - 1, int(0.99 * len(milliseconds)))]
    partitions = f"{sizes.kafka_partitions:,} Kafka partitions with a record each"
    return [
        beside(
            f"{sizes.kafka_messages:,} Kafka records of 100 B, {MESSAGE_PARTITIONS} partitions", messages,
            "consume", HALF, "confluent-kafka's consume in two processes; goal: 0.8 x",
        ),
        beside(
            f"{sizes.kafka_values:,} JSON values of 300 B to 10 columns", values, "file", MOST_OF_FILE,
            "the same bytes as one file, with the json reader",
        ),
        alone(
            f"an idle Kafka topic of {IDLE_PARTITIONS:,} partitions", "requests per poll", idle.ours,
            max(idle.ours), TWO_REQUESTS, f"{idle.peers['batches'][0]:.0f} batches",
        ),
        alone(
            "a Kafka record to the sink", "ms", milliseconds, p50, LATENCY,
            f"p50 {p50:.0f} ms, p99 {p99:.0f} ms of {len(milliseconds)} records",
        ),
        alone(f"planning {partitions}", "ms", planning.ours, statistics.median(planning.ours), PLANNING, ""),
        alone(
            f"offset of {partitions}", "bytes", planning.peers["offset"], max(planning.peers["offset"]),
            OFFSET, "",
        ),
    ]  # fmt: skip
