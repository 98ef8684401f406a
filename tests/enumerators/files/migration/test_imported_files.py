"""The path that finds all files of a list."""

from __future__ import annotations

import pytest

from flip27_source.enumerators.files.migration.imported_files import CommonPath, common_path


@pytest.mark.parametrize(
    ("paths", "path", "is_recursive"),
    [
        (["/in/a", "/in/b"], "/in", False),
        (["/in/1/a", "/in/2/b"], "/in/*", False),
        (["/in/1/x/a", "/in/2/x/b"], "/in/*/x", False),
        (["/in/day=1/a", "/in/day=2/hour=3/b"], "/in", False),
        (["/in/1/day=1/a", "/in/2/day=2/b"], "/in/*", False),
        (["/in/1/a", "/in/2/3/b"], "/in", True),
        (["/in/a", "/in/2/b"], "/in", True),
        (["/in/[1]/1/a", "/in/[1]/2/b"], "/in/[1]", True),
        (["s3://b/in/1/a", "s3://b/in/2/b"], "s3://b/in/*", False),
        (["s3://b/a", "s3://b/b"], "s3://b", False),
        (["s3://b/a", "s3://c/b"], None, False),
        (["/a", "/in/b"], None, False),
        ([], None, False),
    ],
)
def test_the_pattern_matches_all_files(paths: list[str], path: str | None, is_recursive: bool) -> None:
    assert common_path(paths) == CommonPath(path=path, is_recursive=is_recursive)
