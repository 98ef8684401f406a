"""The fixtures that pytest finds by itself, in a separate project.

``flip27_spark`` is tested with the tests of a new project, in tests/cli/test_new.py.
"""

from __future__ import annotations

import pytest

TESTS = """
    from flip27_source.testing import literal_source, Step, Crashed
    import pytest

    def test_an_engine_survives_a_crash(flip27_engine):
        engine = flip27_engine(literal_source({"a": [1, 2], "b": [3]}))
        engine.crash_at(Step.SINK_WRITTEN)
        engine.process_all_available(through_crashes=True)
        assert sorted(engine.rows) == [(1,), (2,), (3,)]

    def test_the_state_directory_is_new(flip27_engine, flip27_state_dir):
        assert not flip27_state_dir.exists()
        source = {"enumerator": "sequence", "end": "3", "stateLocation": str(flip27_state_dir)}
        flip27_engine(source).process_all_available()
        assert any(flip27_state_dir.rglob("*.json"))

    def test_the_state_directory_is_new_in_each_test(flip27_state_dir):
        assert not flip27_state_dir.exists()
"""


def test_the_fixtures_are_available_without_an_import(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=3)


def test_a_project_that_uses_no_fixture_imports_neither_spark_nor_the_engine(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile("""
        import sys

        def test_nothing_of_it_is_loaded():
            assert "flip27_source.pytest_plugin" in sys.modules
            assert not {"pyspark", "flip27_source.testing"} & sys.modules.keys()
    """)
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
