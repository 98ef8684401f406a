"""The page about state can name the type of every column."""

from __future__ import annotations

from flip27_source.state_tables.views import SPARK_NAMES, VIEWS


def test_every_column_has_a_type_that_spark_has_a_name_for() -> None:
    types = {column.type for view in VIEWS.values() for column in view.columns}
    assert types <= SPARK_NAMES.keys()
