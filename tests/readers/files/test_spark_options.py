"""All options of Spark's readers are known, and the docs say which are supported."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flip27_source.errors import OptionError
from flip27_source.options import Options
from flip27_source.readers.csv_lines.reader import CsvLinesReader
from flip27_source.readers.files.spark_options import status
from flip27_source.registry import find_reader
from scripts import readers_table
from tests.spark.jvm import jvm_of

READ_BY_SPARK = {
    "json": "org.apache.spark.sql.catalyst.json.JSONOptions",
    "csv": "org.apache.spark.sql.catalyst.csv.CSVOptions",
}
ONLY_WRITTEN = {
    "compression", "codec", "ignorenullfields", "writenullifwithdefaultvalue", "pretty", "extension",
    "quoteall", "escapequotes", "sortkeys", "writenonasciicharacterascodepoint",
    "inputbuffersize", "useunsaferow",
}  # fmt: skip
"""Options of writers, and two that control the internals of Spark's parsers."""


@pytest.mark.parametrize("name", READ_BY_SPARK)
def test_every_option_of_spark_is_known(spark: SparkSession, name: str) -> None:
    module = jvm_of(spark).java.lang.Class.forName(f"{READ_BY_SPARK[name]}$").getField("MODULE$").get(None)
    options = module.getAllOptions()
    theirs = {text.lower() for text in _texts(options)}
    assert len(theirs) > 15
    ours = {option.name.lower() for option in find_reader(name).options}
    assert theirs - ours - ONLY_WRITTEN == set()


def _texts(scala: object) -> list[str]:
    return str(scala.mkString(",")).split(",")  # type: ignore[attr-defined]


def test_an_unsupported_spark_value_is_refused_with_an_alternative() -> None:
    with pytest.raises(OptionError) as caught:
        Options.parse({"lineSep": ";"}, CsvLinesReader.options)
    assert "option lineSep has the value ';': supported by Spark's reader, not by flip27" in str(caught.value)
    assert "end lines with a newline" in str(caught.value)


def test_sparks_default_values_are_accepted_and_inference_options_have_no_effect() -> None:
    given = {"columnPruning": "TRUE", "encoding": "utf-8", "inferSchema": "true", "samplingRatio": "0.1"}
    Options.parse(given, CsvLinesReader.options)


def test_the_status_of_each_option_is_derived_from_the_code() -> None:
    found = {option.name: status(option) for option in CsvLinesReader.options}
    assert (found["sep"], found["lineSep"], found["samplingRatio"]) == (
        "supported",
        "default only",
        "without effect",
    )


def test_the_table_in_the_docs_matches_the_code() -> None:
    text = readers_table.PAGE.read_text()
    assert readers_table.page(text) == text, "run python -m scripts.readers_table"


@pytest.mark.parametrize("name", readers_table.READERS)
def test_the_docs_name_every_reader(name: str) -> None:
    assert f"`{name}`" in Path(readers_table.PAGE).read_text()
