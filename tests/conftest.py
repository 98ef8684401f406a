"""Fixtures for all tests: one local Spark session."""

from __future__ import annotations

import functools
import gc
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from scripts.class_archive import BRIEF_JVM, java_options
from tests import checkpoint_files
from tests.azurite_server import AzureContainer, Azurite, azurite_server
from tests.gcs_server import GcsBucket, gcs_endpoint, new_gcs_bucket
from tests.kafka_server import KafkaBroker, kafka_broker
from tests.mysql_server import MysqlServer, mysql_server
from tests.places import PLACES, WRITABLE, Place, each
from tests.postgres_server import PostgresServer, postgres_server
from tests.quick_moto import QuickAnswers, quick_answers
from tests.s3_server import S3Bucket, new_bucket, s3_endpoint
from tests.spark.jvm import remember_names
from tests.spark_features import needs
from tests.spark_home import quick_spark_home

_HERE = Path(__file__).parent

pytest_plugins = ["pytester"]

# There is no deadline: how long an example takes depends on the machine, and no test should fail by it.
_EXAMPLES = int(os.environ.get("FLIP27_EXAMPLES", "100"))
settings.register_profile("flip27", deadline=None, max_examples=_EXAMPLES)
settings.load_profile("flip27")

# Set before Spark starts, because its processes inherit the environment of that moment. docs/http.md uses
# this token, and docs/postgres.md this password.
os.environ.setdefault("SHOP_TOKEN", "token-of-the-shop")
os.environ.setdefault("SHOP_PASSWORD", "password-of-the-shop")

# Spark's processes live only for seconds in these tests.
_QUICK = " ".join(f"-D{name}={value}" for name, value in checkpoint_files.QUICK.items())
os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{BRIEF_JVM} {java_options()} {_QUICK}")
os.environ.setdefault("SPARK_LAUNCHER_OPTS", BRIEF_JVM)

os.environ.setdefault("SPARK_HOME", str(quick_spark_home()))

# Workers run in the interpreter of the tests even if the virtual environment is not activated.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


STARTS_SPARK = (
    "examples", "readers/test_formats_in_spark.py", "soak", "spark", "test_benchmarks.py", "test_demo.py",
    "test_docs_code.py", "test_notebooks.py",
)  # fmt: skip
"""Tests that start Spark in separate processes; other tests use the fixture."""


LONGEST_FIRST = (
    "test_notebooks.py", "model/test_interleavings.py", "test_benchmarks.py", "spark/test_disasters.py",
    "spark/test_drivers.py", "spark/test_attempts.py", "spark/test_connect.py", "test_demo.py",
    "simulator/test_mutations.py", "simulator/test_postgres_mutations.py",
)  # fmt: skip
"""Files that take a minute: they start first, so that the other processes do not wait for one at the end."""


SERVERS = {
    "_s3_endpoint", "azurite", "bare", "kafka", "mysql", "older", "own_server", "postgres", "s3", "server",
    "shop", "tansu", "waiting_server",
}  # fmt: skip
"""Fixtures that start a server."""


THOROUGH = (
    "cli/test_app.py", "cli/test_check.py", "cli/test_edit_commands.py", "cli/test_new.py",
    "cli/test_odd_values.py", "cli/test_postgres_commands.py", "coordination/test_ledger.py",
    "driver/test_holder.py",
    "driver/test_poisoned_requests.py", "driver/test_scenarios.py", "edits/test_requests.py",
    "enumerators/files/test_enumerator_listing.py", "enumerators/files/test_file_names.py",
    "enumerators/files/test_hostile_web_servers.py", "enumerators/files/test_listing.py",
    "enumerators/files/test_histories.py", "enumerators/files/test_sorted_hashes.py", "enumerators/http_api",
    "enumerators/kafka/test_kills.py",
    "enumerators/postgres/test_model.py", "enumerators/sql", "executor/test_buffered_rows.py",
    "executor/test_ignored_splits.py", "file_systems/test_scenarios.py", "model",
    "readers/csv_lines/test_quote_checks.py", "readers/csv_lines/test_values.py",
    "readers/files/test_bad_files.py", "readers/files/test_line_blocks.py",
    "readers/files/test_read_ahead.py", "readers/http_api",
    "readers/json_lines/test_columns.py", "readers/json_lines/test_layout.py", "readers/kafka",
    "readers/sql", "readers/test_text.py",
    "savepoints/test_hostile_metadata.py", "simulator", "soak", "state_tables/test_locations.py",
    "test_docs.py", "test_option_values.py", "test_permissions.py", "ui",
    "testing", "values/test_stored_values.py",
)  # fmt: skip
"""Files that take seconds although they start no Spark; ``make test-fast`` leaves them out."""


COMPARED_WITH_SPARK = ("fuzz", "readers/json_lines", "readers/schemas")
"""Tests that compare malformed lines of JSON with what Spark 4.3 makes of them."""


TESTS_OF_TESTS = (
    "fuzz", "model/test_mutations.py", "test_class_archive.py", "test_servers.py"
)  # fmt: skip
"""Tests that check the tests' own servers, models and generators; ``make test`` leaves them out."""


SAMPLED = ("model/test_mutations.py", "simulator/test_mutations.py", "simulator/test_postgres_mutations.py")
"""Tests that put defects back: ``make test-slow`` runs every eighth of them, ``make test-long`` the rest."""


FEW_VALUES = 4
"""Of a parametrized test with more values that takes seconds, Spark or a server, ``make test`` runs a few."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that start Spark or a server, for ``make test-fast``, and tests of tests as slow.

    Tests that start Spark come first; apart from that the files are in an arbitrary but fixed order.
    """
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        if "_session" in names or _lies_in(item.path, STARTS_SPARK):
            item.add_marker(pytest.mark.spark)
            if _lies_in(item.path, COMPARED_WITH_SPARK) and not _lies_in(item.path, STARTS_SPARK):
                item.add_marker(needs("malformed lines of JSON"))
        if not SERVERS.isdisjoint(names):
            item.add_marker(pytest.mark.server)
        if _lies_in(item.path, THOROUGH):
            item.add_marker(pytest.mark.thorough)
        if _lies_in(item.path, TESTS_OF_TESTS):
            item.add_marker(pytest.mark.slow)
        if _lies_in(item.path, SAMPLED) and zlib.crc32(item.name.encode()) % 8:
            item.add_marker(pytest.mark.long)
    for item in _values_for_later(items):
        item.add_marker(pytest.mark.slow)
    items.sort(key=_place)


def _values_for_later(items: list[pytest.Item]) -> list[pytest.Item]:
    """Parametrized tests that ``make test-slow`` runs because ``make test`` runs others of the same function.

    Of more than ``FEW_VALUES``, three and every sixteenth remain: an arbitrary but fixed choice.
    """
    costly = {"server", "spark", "thorough"}
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if "[" in item.name and costly & marks and not {"slow", "long"} & marks:
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    later = []
    for values in functions.values():
        if len(values) > FEW_VALUES:
            values.sort(key=lambda item: zlib.crc32(item.name.encode()))
            later += values[FEW_VALUES - 1 + len(values) // 16 :]
    return later


# Cached, because there are fifty tests for each path.
@functools.cache
def _lies_in(path: Path, names: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(_HERE / name) for name in names)


@functools.cache
def _scattered(path: Path) -> tuple[int, int]:
    """The place of a file among the longest ones, and an arbitrary number."""
    longest = {_HERE / name: place for place, name in enumerate(LONGEST_FIRST)}
    return longest.get(path, len(longest)), zlib.crc32(path.relative_to(_HERE).as_posix().encode())


def _place(item: pytest.Item) -> tuple[int, bool, int]:
    # Files that wait for the same kind of server are spread out, so that the cores stay busy.
    longest, scattered = _scattered(item.path)
    has_none = longest == len(LONGEST_FIRST) and item.get_closest_marker("spark") is None
    return longest, has_none, scattered


def pytest_collection_finish() -> None:
    """Exclude long-lived objects from garbage collection, which saves a tenth of the tests' CPU time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of modules that Spark's processes can import, as if they were installed."""
    return tmp_path_factory.mktemp("installed")


@pytest.fixture(scope="session")
def _session(installed: Path) -> Iterator[SparkSession]:
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(installed), os.environ.get("PYTHONPATH")]))
    remember_names()
    session = (
        SparkSession.builder.master("local[2]")
        .appName("flip27-source tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.streaming.stopTimeout", "30s")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def spark(_session: SparkSession) -> Iterator[SparkSession]:
    """The session, in UTC; a test may set another time zone, and the next test starts in UTC again."""
    _session.conf.set("spark.sql.session.timeZone", "UTC")
    yield _session
    _session.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.fixture(scope="session")
def _s3_endpoint() -> Iterator[str]:
    with s3_endpoint() as url:
        yield url


@pytest.fixture(scope="module")
def counting(_s3_endpoint: str) -> Iterator[QuickAnswers]:
    """The server of ``s3_bucket``, which counts requests."""
    with quick_answers(_s3_endpoint) as quick:
        yield quick


@pytest.fixture
def s3_bucket(_s3_endpoint: str) -> S3Bucket:
    """A new, empty bucket for each test, on an S3 server on this machine."""
    return new_bucket(_s3_endpoint)


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    """An Azure Storage server on this machine; ``azurite.container()`` makes an empty container."""
    with azurite_server() as server:
        yield server


@pytest.fixture
def azure_container(azurite: Azurite) -> AzureContainer:
    """A new, empty container for each test."""
    return azurite.container()


@pytest.fixture(scope="session")
def gcs() -> Iterator[str]:
    """The URL of a Google Cloud Storage server on this machine."""
    with gcs_endpoint() as url:
        yield url


@pytest.fixture
def gcs_bucket(gcs: str) -> GcsBucket:
    """A new, empty bucket for each test."""
    return new_gcs_bucket(gcs)


@pytest.fixture(params=each(WRITABLE))
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Each file system that can be written to, or those that a test names in an indirect parameter."""
    with PLACES[request.param](request) as found:
        yield found


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server on this machine; ``postgres.database()`` makes an empty database for one test."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def mysql() -> Iterator[MysqlServer]:
    """A MariaDB server on this machine; ``mysql.database()`` makes an empty database for one test."""
    with mysql_server() as server:
        yield server


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """A Kafka broker on this machine; ``kafka.topic()`` makes an empty topic for one test."""
    with kafka_broker("noida") as broker:
        yield broker


@pytest.fixture(scope="session")
def tansu() -> Iterator[KafkaBroker]:
    """A Kafka broker that keeps its records in memory: it is quick, and has topic ids."""
    with kafka_broker("tansu") as broker:
        yield broker
