"""Spark's own objects behind those of PySpark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from py4j.java_gateway import JavaClass, JavaPackage, JVMView
from pyspark.sql import DataFrame, SparkSession


def jvm_of(spark: SparkSession) -> Any:
    """The classes of the session's JVM, as attributes by their packages."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return jvm


def remember_names() -> None:
    """Look up each name in the JVM once; called once in a process.

    For each use of a name PySpark asks py4j, which searches all jars of Spark for classes that the name could
    be: up to half of the JVM's CPU time in small jobs.
    """
    for view in (JVMView, JavaPackage):
        view.__getattr__ = _remembering(view.__getattr__)


def query_execution(frame: DataFrame) -> Any:
    """How Spark plans and runs a frame."""
    return frame._jdf.queryExecution()  # type: ignore[operator]


def _remembering(looked_up: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    def get(view: Any, name: str) -> Any:
        found = looked_up(view, name)
        # A name in upper case that is no class yet becomes one when it is imported.
        if isinstance(found, JavaClass) or (isinstance(found, JavaPackage) and name.islower()):
            vars(view)[name] = found
        return found

    return get
