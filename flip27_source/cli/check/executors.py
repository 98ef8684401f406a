"""Checks of every executor: each runs a task of its own, and its findings name it and its host.

Spark has no function that runs a task on a given executor, but a task may prefer the executor that has its
data in memory, and with a long ``spark.locality.wait`` it waits for that one. Over Spark Connect the
executors are not known, so several tasks run, and the hosts are those that have answered.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from flip27_source.contract_version import contract_version
from flip27_source.errors import Flip27Error, some_of
from flip27_source.source_checks import Finding, Status, failed, failure, ok, warning

from .machine import package_version, python_version, required_packages
from .missing_resources import missing_resources
from .on_executor import STATE, ExecutorTask, facts, not_shared
from .time_limits import within

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTLED_S = 5.0
"""If the number of executors is not known, no more are expected after this time without a new one."""
CLOCK_S = 5.0
"""Larger differences between the clocks of driver and executor are reported."""
LOW_DISK_BYTES = 1 << 30
_TASKS_OVER_CONNECT = 8
_POLL_S = 0.1
_OTHER_PYTHON = re.compile(r"Python in worker has different version: (\S+) than that in driver: (\S+?),")
_INSTANCES_BY_DEFAULT = 2
_LONGEST_LIST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """An executor; its id is empty over Spark Connect."""

    id: str
    host: str

    def __str__(self) -> str:
        return f"executor {self.id} on {self.host}" if self.id else f"an executor on {self.host}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a task on an executor has found, or the error with which it failed.

    Attributes:
        asked_at, ended_at: the driver's clock before and after the task, in seconds.
    """

    executor: Executor
    asked_at: float
    ended_at: float
    found: dict[str, Any] | None = None
    error: str | None = None


def executors(
    spark: SparkSession,
    task: ExecutorTask | None,
    own: dict[str, str | None],
    timeout_s: float,
    sees: Callable[[str], bool] = lambda _executor: True,
) -> Iterator[Finding]:
    """Check every executor.

    Args:
        task: what they look at; None for their environment only.
        own: versions of packages on the driver.
        timeout_s: maximum time until all have answered.
        sees: whether the driver sees the probe file that an executor, by its id, has written.
    """
    began = time.monotonic()
    deadline = began + timeout_s
    if _is_remote(spark):
        late = Flip27Error(
            f"no task of the server has answered until the time limit ({timeout_s:g} s)",
            remedy="see whether its cluster has executors that are free; --timeout waits longer",
        )
        try:
            answers = within(timeout_s, lambda: _over_connect(spark, task, list(own)), lambda: late)
        except Flip27Error as error:
            yield failure("executors", error)
            return
        except Exception as error:  # noqa: BLE001 - any failure of a task is the finding
            yield _failed_task("executors", reason(str(error)), "python3")
            return
        yield from findings_of(answers, own, _python_of_source(spark))
        return
    yield from _other_setting(spark)
    known, expected = _registered(spark, deadline)
    if not known:
        conf = spark.sparkContext.getConf()
        settings = {name: value for name, value in conf.getAll() if name.startswith("spark.")}
        yield missing_resources(settings, time.monotonic() - began)
        return
    if expected is not None and len(known) < expected:
        yield warning(
            "executors",
            f"{len(known)} of {expected} executors have registered in {time.monotonic() - began:.0f} s",
            "see why the cluster starts no more: its resources, or the logs of executors that have ended; "
            "--timeout waits longer",
        )
    else:
        yield ok("executors", f"{len(known)}: {some_of([item.host for item in known], _LONGEST_LIST)}")
    answers = [_with_own_file(item, task, sees) for item in _asked(spark, known, task, list(own), deadline)]
    silent = [item for item in known if all(answer.executor != item for answer in answers)]
    for executor in silent:
        yield failed(
            str(executor),
            f"it has run no task until the time limit ({time.monotonic() - began:.0f} s)",
            "see the log of the executor, and whether its host reaches spark.driver.host; --timeout waits "
            "longer",
        )
    yield from findings_of(answers, own, _python_of_source(spark))


def findings_of(answers: Sequence[Answer], own: dict[str, str | None], python: str) -> Iterator[Finding]:
    """The findings of all executors: one for each check that all pass, and one for each executor otherwise.

    Args:
        python: the command with which Spark starts Python on executors.
    """
    of_check: dict[str, list[tuple[Executor, Finding]]] = defaultdict(list)
    for answer in answers:
        for finding in _of_answer(answer, own, python):
            of_check[finding.check].append((answer.executor, finding))
    for check, found in of_check.items():
        passed = [(executor, finding) for executor, finding in found if finding.status is Status.OK]
        if passed:
            texts = list(dict.fromkeys(finding.found for _, finding in passed))
            hosts = list(dict.fromkeys(executor.host for executor, _ in passed))
            number = f"{len(passed)} executor" + "s" * (len(passed) > 1)
            yield ok(
                f"executors: {check}",
                f"{'; '.join(texts[:_LONGEST_LIST])} ({number}: {some_of(hosts, _LONGEST_LIST)})",
            )
        for executor, finding in found:
            if finding.status is not Status.OK:
                yield replace(finding, check=f"{executor}: {check}" if check else str(executor))


def _of_answer(answer: Answer, own: dict[str, str | None], python: str) -> Iterator[Finding]:
    if answer.found is None:
        yield _failed_task("", answer.error or "", python)
        return
    found = answer.found
    numbers = tuple(int(part) for part in found["python"].split(".")[:3] if part.isdigit())
    minimum = python_version("python", numbers)
    where = f"{found['python']} ({found['executable']})"
    yield ok("python", where) if minimum.status is Status.OK else minimum
    yield _same_contract(found)
    for name, version in found["packages"].items():
        yield _same_package(name, version, own.get(name))
    yield _clock(found["now"], answer)
    for folder, free in found["free"].items():
        if free < LOW_DISK_BYTES:
            yield warning(
                "disk",
                f"{folder} has {free >> 20:,} MiB free",
                "free space, or set spark.local.dir to another disk",
            )
    if all(free >= LOW_DISK_BYTES for free in found["free"].values()):
        yield ok("disk", f"at least {min(found['free'].values()) >> 30} GiB free")
    for item in found["findings"]:
        yield Finding(**(item | {"status": Status(item["status"])}))


def _with_own_file(answer: Answer, task: ExecutorTask | None, sees: Callable[[str], bool]) -> Answer:
    """The answer, changed if the driver does not see the file that the executor has written."""
    if task is None or answer.found is None:
        return answer
    findings = answer.found["findings"]
    for place, item in enumerate(findings):
        if item["check"] == STATE and item["status"] == Status.OK and not sees(answer.executor.id):
            findings[place] = asdict(
                not_shared("the driver does not see a file that was written there", task)
            )
    return answer


def _same_contract(found: dict[str, Any]) -> Finding:
    remedy = "install the same build of flip27-source on the driver and on all nodes, for the Python of Spark"
    theirs = found["contract"]
    if theirs is None:
        return failed("flip27-source", f"{found['problem']} ({found['executable']})", remedy)
    if theirs != contract_version():
        return failed(
            "flip27-source", f"contract version {theirs}, but {contract_version()} on the driver", remedy
        )
    return ok("flip27-source", f"contract version {theirs}")


def _same_package(name: str, version: str | None, own: str | None) -> Finding:
    finding = package_version(f"package {name}", name, version, required_packages().get(name))
    if finding.remedy is None and own is not None and version != own:
        return warning(
            f"package {name}", f"{version}, but {own} on the driver", "install the same version on all nodes"
        )
    return finding


def _clock(there: float, answer: Answer) -> Finding:
    behind, ahead = answer.asked_at - there, there - answer.ended_at
    if max(behind, ahead) <= CLOCK_S:
        return ok("clock", f"within {CLOCK_S:g} s of the driver's")
    return warning(
        "clock",
        f"at least {max(behind, ahead):.0f} s {'behind' if behind > ahead else 'ahead of'} the driver's",
        "synchronise the clocks of all hosts (NTP): credentials and signed requests depend on them",
    )


def _failed_task(check: str, error: str, python: str) -> Finding:
    other = _OTHER_PYTHON.search(error)
    if other is not None:
        return failed(
            check,
            f"its Python is {other[1]}, but {other[2]} on the driver; Spark starts {python!r} there",
            f"install Python {other[2]} there under that name, or set PYSPARK_PYTHON to a Python {other[2]} "
            "that all hosts have",
        )
    return failed(check, f"a task has failed: {error}", "see the executor's log for the whole error")


def reason(text: str) -> str:
    """The part of the text of a failed task that says why: the last error of Python, or the first line."""
    text = text.partition("JVM stacktrace:")[0]
    errors = re.findall(r"^[\w.]*(?:Error|Exception): .*$", text, re.MULTILINE)
    lines = [line for line in text.splitlines() if line.strip()]
    return (errors[-1:] or lines[:1] or ["it gives no reason"])[0].strip()


def _is_remote(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _python_of_source(spark: SparkSession) -> str:
    """The command with which Spark starts Python for tasks of an installed source."""
    if _is_remote(spark):
        return "the Python of the server"
    jvm: Any = spark.sparkContext._jvm
    python = getattr(getattr(jvm.org.apache.spark.api.python, "PythonUtils$"), "MODULE$")
    return str(python.defaultPythonExec())


def _other_setting(spark: SparkSession) -> Iterator[Finding]:
    """A warning if a setting names another Python than the one that Spark starts for an installed source."""
    named = spark.sparkContext.getConf().get("spark.pyspark.python")
    python = _python_of_source(spark)
    if named is not None and named != python:
        yield warning(
            "spark's python",
            f"spark.pyspark.python is {named}, but tasks of a source are started with {python}: for them "
            "Spark takes the environment of the driver's JVM",
            f"set the environment variable PYSPARK_PYTHON={named} where the driver starts, and leave "
            "PYSPARK_DRIVER_PYTHON unset or set it to the same",
        )


def _registered(spark: SparkSession, deadline: float) -> tuple[list[Executor], int | None]:
    """The executors, once all are there that are expected, and the number that is expected."""
    master, conf = str(spark.sparkContext.master), spark.sparkContext.getConf()
    expected = expected_executors(master, dict(conf.getAll()))
    known: list[Executor] = []
    last_new = time.monotonic()
    while time.monotonic() < deadline:
        now = _executors(spark, master)
        if len(now) != len(known):
            last_new = time.monotonic()
        known = now
        if known and expected is None and time.monotonic() - last_new > SETTLED_S:
            break
        if expected is not None and len(known) >= expected:
            break
        time.sleep(_POLL_S)
    return known, expected


def expected_executors(master: str, settings: dict[str, str]) -> int | None:
    """How many executors an application gets; None if the cluster decides."""
    if re.match(r"local($|\[)", master):
        return 1
    if cluster := re.match(r"local-cluster\[\s*(\d+)", master):
        return int(cluster[1])
    if "spark.executor.instances" in settings:
        return int(settings["spark.executor.instances"])
    return _INSTANCES_BY_DEFAULT if master.startswith(("yarn", "k8s:")) else None


def _executors(spark: SparkSession, master: str) -> list[Executor]:
    jvm: Any = spark.sparkContext._jsc
    found = jvm.sc().statusStore().executorList(True)
    items = [found.apply(index) for index in range(found.size())]
    is_local = re.match(r"local($|\[)", master) is not None
    return sorted(
        (
            # The port is added a moment after the executor has registered.
            Executor(id=item.id(), host=re.sub(r":\d+$", "", item.hostPort()))
            for item in items
            if is_local or item.id() != "driver"
        ),
        key=lambda item: (len(item.id), item.id),
    )


def _asked(
    spark: SparkSession,
    known: Iterable[Executor],
    task: ExecutorTask | None,
    packages: list[str],
    deadline: float,
) -> list[Answer]:
    """The answers that came in time, in the order of the executors."""
    answers: dict[Executor, Answer] = {}

    def ask(executor: Executor) -> None:
        sent = None if task is None else task.on(executor.id)
        asked_at = time.time()
        found, error = None, None
        try:
            found = _run_on(spark, executor, _looking(packages, sent))
        except Exception as problem:  # noqa: BLE001 - any failure of a task is the finding
            error = reason(str(problem))
        answers[executor] = Answer(
            executor=executor, asked_at=asked_at, ended_at=time.time(), found=found, error=error
        )

    threads = {item: threading.Thread(target=ask, args=(item,), daemon=True) for item in known}
    for thread in threads.values():
        thread.start()
    for thread in threads.values():
        thread.join(max(deadline - time.monotonic(), 0.0))
    return [answers[executor] for executor in threads if executor in answers]


def _looking(packages: list[str], task: bytes | None) -> Callable[[], dict[str, Any]]:
    contract = contract_version()
    return lambda: facts(packages, contract, task)


def _run_on(spark: SparkSession, executor: Executor, look: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of a task on this executor, with the Python that Spark runs for tasks of a source."""
    from pyspark.core.rdd import RDD
    from pyspark.serializers import CPickleSerializer

    context: Any = spark.sparkContext
    jvm = context._jvm
    serializer: Any = CPickleSerializer()
    any_class = getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$").Any()
    # This form of a location names an executor (org.apache.spark.scheduler.TaskLocation).
    places = jvm.PythonUtils.toSeq([f"executor_{executor.host}_{executor.id}"])
    placed = jvm.scala.Tuple2(bytearray(serializer.dumps(None)), places)
    scala = context._jsc.sc().makeRDD(jvm.PythonUtils.toSeq([placed]), any_class)
    java = jvm.org.apache.spark.api.java.JavaRDD(scala, any_class)
    context.pythonExec = _python_of_source(spark)
    (found,) = RDD(java, context, serializer).mapPartitions(lambda _: [look()]).collect()
    return dict(found)


def _over_connect(spark: SparkSession, task: ExecutorTask | None, packages: list[str]) -> list[Answer]:
    """The answer of one task of each executor that has run some."""
    look = _looking(packages, None if task is None else task.on("connect"))
    asked_at = time.time()

    def run(_: Any) -> Any:
        import pyarrow as pa

        yield pa.RecordBatch.from_pydict({"found": [json.dumps(look())]})

    tasks = spark.range(0, _TASKS_OVER_CONNECT, 1, _TASKS_OVER_CONNECT)
    rows = [json.loads(row.found) for row in tasks.mapInArrow(run, "found string").collect()]
    ended_at = time.time()
    by_process = {(found["host"], found["process"]): found for found in rows}
    return [
        Answer(executor=Executor(id="", host=host), asked_at=asked_at, ended_at=ended_at, found=found)
        for (host, _), found in sorted(by_process.items())
    ]
