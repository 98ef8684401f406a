"""Why no executor has come: what an executor asks for, and what the workers of a standalone cluster have."""

from __future__ import annotations

import json
import os
import re
import urllib.request
from collections.abc import Mapping
from typing import Any

from flip27_source.source_checks import Finding, failed

_ANSWER_S = 3.0
_REMEDIES = {
    "spark": "start workers (sbin/start-worker.sh URL) or wait until one is free; or ask for less by "
    "--conf spark.executor.memory=... and spark.executor.cores=...",
    "yarn": "see the application in the ResourceManager: the queue's limits, free containers",
    "k8s": "see the executors' pods (kubectl get pods, describe): image, quota, free nodes, service account",
}


def missing_resources(settings: Mapping[str, str], waited_s: float) -> Finding:
    """The finding if no executor has registered.

    Args:
        settings: of the Spark session.
    """
    master = settings.get("spark.master", "")
    memory = settings.get("spark.executor.memory", "1g")
    cores = settings.get("spark.executor.cores")
    asked = f"an executor asks for {memory} of memory and {_cores(cores)}"
    workers = _workers(master)
    said = f"no executor has registered in {waited_s:.0f} s at {master}: {asked}"
    if workers is not None:
        said += f"; {workers}"
    remedy = _REMEDIES.get(re.split(r"[:\[]", master)[0], "see the resources of the cluster, and the log")
    return failed("executors", said, remedy)


def _cores(cores: str | None) -> str:
    if cores is None:
        return "all cores of a worker, at least one"
    return "1 core" if cores == "1" else f"{cores} cores"


def _workers(master: str) -> str | None:
    """What a standalone master's web page says about workers; None if it does not answer."""
    host = re.match(r"spark://([^:,]+)", master)
    if host is None:
        return None
    port = os.environ.get("SPARK_MASTER_WEBUI_PORT", "8080")
    try:
        with urllib.request.urlopen(f"http://{host[1]}:{port}/json/", timeout=_ANSWER_S) as answer:
            return workers_text(json.load(answer))
    except (OSError, ValueError, KeyError):
        return None


def workers_text(state: dict[str, Any]) -> str:
    """The workers in the JSON of a master's web page, with what is free."""
    alive = [worker for worker in state["workers"] if worker["state"] == "ALIVE"]
    if not alive:
        return "the master has no live worker"
    return "live workers: " + ", ".join(
        f"{worker['host']} ({worker['coresfree']} of {worker['cores']} cores and {worker['memoryfree']} of "
        f"{worker['memory']} MiB free)"
        for worker in alive
    )
