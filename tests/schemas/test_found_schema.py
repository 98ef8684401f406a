"""An author's source that finds the schema in its SQLite table."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from flip27_source import DiscoveringEnumerator, Discovery, FindsSchema, Option, Options, SplitReader
from flip27_source.errors import NewColumnsError, OptionError, SchemaError
from flip27_source.options import text
from flip27_source.schemas.ddl import columns_text
from flip27_source.schemas.source_schema import schema_of
from flip27_source.source import Source
from flip27_source.spark.data_source import Flip27DataSource
from flip27_source.testing import MicroBatchEngine

DATABASE: Option[str] = Option(name="database", parse=text, default="", doc="The file of the database.")

_ARROW = {"INTEGER": pa.int64(), "TEXT": pa.string(), "REAL": pa.float64()}


@dataclass(frozen=True)
class Ids:
    """A split: the rows with ids in ``(after, last]``."""

    after: int
    last: int

    @property
    def split_id(self) -> str:
        return f"{self.after}-{self.last}"


def columns_of(database: str) -> pa.Schema:
    with closing(sqlite3.connect(database)) as shop:
        found = shop.execute("SELECT name, type, \"notnull\" FROM pragma_table_info('orders')").fetchall()
    return pa.schema([pa.field(name, _ARROW[kind], nullable=not fixed) for name, kind, fixed in found])


class Orders(DiscoveringEnumerator[Ids]):
    options: ClassVar[tuple[Option[Any], ...]] = (DATABASE,)

    def discover(self, position: int | None) -> Discovery[Ids, int]:
        after = position or 0
        with closing(sqlite3.connect(self.options_given[DATABASE])) as shop:
            (last,) = shop.execute("SELECT max(id) FROM orders").fetchone()
        return Discovery([Ids(after, last)] if (last or 0) > after else [], last or after)


class OrdersReader(FindsSchema, SplitReader[Ids]):
    asked: ClassVar[int] = 0

    @classmethod
    def find_schema(cls, options: Options) -> pa.Schema | None:
        cls.asked += 1
        return columns_of(options[DATABASE])

    def read(self, split: Ids) -> Iterator[tuple[Any, ...]]:
        database = self.context.options[DATABASE]
        self.context.check_new_columns(columns_of(database), where="table orders")
        names = ", ".join(self.context.schema.names)
        with closing(sqlite3.connect(database)) as shop:
            yield from shop.execute(
                f"SELECT {names} FROM orders WHERE id > ? AND id <= ?", (split.after, split.last)
            )


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as made:
        made.execute("CREATE TABLE orders (id INTEGER NOT NULL, name TEXT)")
        insert(made, "INSERT INTO orders VALUES (1, 'ann'), (2, 'bob')")
        yield made


def insert(shop: sqlite3.Connection, statement: str) -> None:
    with shop:
        shop.execute(statement)


def options_of(folder: Path, **more: str) -> dict[str, str]:
    return {"database": str(folder / "shop.db"), "stateLocation": str(folder / "state"), **more}


def source_of(folder: Path, reader: type[SplitReader[Any]] = OrdersReader, **more: str) -> Source:
    return Source.resolve(options_of(folder, **more), enumerator=Orders, reader=reader)


def engine_of(folder: Path, **more: str) -> MicroBatchEngine:
    return MicroBatchEngine(options_of(folder, **more), enumerator=Orders, reader=OrdersReader)


def test_the_table_is_queried_once_and_every_later_start_has_the_same_columns(
    tmp_path: Path, shop: sqlite3.Connection
) -> None:
    OrdersReader.asked = 0
    first = schema_of(source_of(tmp_path))
    insert(shop, "ALTER TABLE orders ADD COLUMN amount REAL")
    assert schema_of(source_of(tmp_path)) == first
    assert first == pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    assert OrdersReader.asked == 1


def test_spark_gets_the_found_schema_if_the_user_gives_none(tmp_path: Path, shop: sqlite3.Connection) -> None:
    class ShopSource(Flip27DataSource):
        enumerator = Orders
        reader_type = OrdersReader

    found = ShopSource(options_of(tmp_path)).schema()
    assert found.simpleString() == "struct<id:bigint,name:string>"
    assert [field.nullable for field in found] == [False, True]


def test_a_new_column_stops_the_query_once_and_the_restart_reads_it_without_loss(
    tmp_path: Path, shop: sqlite3.Connection
) -> None:
    engine = engine_of(tmp_path, schemaEvolutionMode="addNewColumns")
    engine.process_all_available()
    assert engine.rows == [(1, "ann"), (2, "bob")]
    insert(shop, "ALTER TABLE orders ADD COLUMN amount REAL")
    insert(shop, "INSERT INTO orders VALUES (3, 'cid', 1.5)")
    engine.now_ms += 60_000
    with pytest.raises(NewColumnsError, match="table orders has columns that the schema does not have"):
        engine.process_all_available()
    schema = schema_of(source_of(tmp_path))
    assert columns_text(schema) == "id bigint, name string, amount double"
    assert not schema.field("id").nullable
    engine.restart()
    engine.process_all_available()
    assert engine.rows == [(1, "ann"), (2, "bob"), (3, "cid", 1.5)]


@pytest.mark.parametrize(("mode", "is_told"), [("none", False), ("failOnNewColumns", True)])
def test_other_modes_ignore_new_columns_or_fail_permanently(
    tmp_path: Path, shop: sqlite3.Connection, mode: str, is_told: bool
) -> None:
    engine = engine_of(tmp_path, schemaEvolutionMode=mode)
    insert(shop, "ALTER TABLE orders ADD COLUMN amount REAL")
    if is_told:
        with pytest.raises(NewColumnsError):
            engine.process_all_available()
    else:
        engine.process_all_available()
        assert engine.rows == [(1, "ann"), (2, "bob")]
    assert columns_text(schema_of(source_of(tmp_path))) == "id bigint, name string"


def test_a_mode_that_only_readers_of_files_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="schemaEvolutionMode"):
        source_of(tmp_path, schemaEvolutionMode="rescue")


class EnumeratorKnows(FindsSchema, Orders):
    """An enumerator that has the hook instead of the reader."""

    @classmethod
    def find_schema(cls, options: Options) -> pa.Schema | None:
        return pa.schema({"id": pa.int64()})


class SilentReader(SplitReader[Ids]):
    def read(self, split: Ids) -> Iterator[tuple[int]]:
        yield (split.last,)


def test_the_enumerator_may_find_the_schema_instead_of_the_reader(tmp_path: Path) -> None:
    source = Source.resolve(options_of(tmp_path), enumerator=EnumeratorKnows, reader=SilentReader)
    assert columns_text(schema_of(source)) == "id bigint"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "found no schema"),
        ({"id": "long"}, "returned a dict"),
        (pa.schema({"id": pa.uint64()}), "column id: Spark has no type for uint64"),
        (pa.schema([]), "found no column"),
        (pa.schema([("id", pa.int64()), ("ID", pa.int64())]), "columns id and ID, which Spark takes for one"),
    ],
    ids=["none", "dict", "uint64", "empty", "twice"],
)
def test_an_invalid_schema_is_refused_and_not_recorded(tmp_path: Path, found: Any, said: str) -> None:
    class Wrong(OrdersReader):
        @classmethod
        def find_schema(cls, options: Options) -> Any:
            return found

    with pytest.raises(SchemaError, match=said):
        schema_of(source_of(tmp_path, Wrong))
    assert not (tmp_path / "state").exists()


def test_an_error_of_the_source_names_the_hook(tmp_path: Path) -> None:
    class Unreachable(OrdersReader):
        @classmethod
        def find_schema(cls, options: Options) -> Any:
            raise ConnectionRefusedError("port 5432")

    with pytest.raises(
        SchemaError, match=r"find_schema of .*Unreachable failed: ConnectionRefusedError: port"
    ):
        schema_of(source_of(tmp_path, Unreachable))
