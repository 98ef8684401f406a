"""Migration from Spark: its names of files and ours, and the path that finds all files of a list."""

from __future__ import annotations

import pytest

from flip27_source.enumerators.files.migration.hadoop_uris import HadoopUris, OurPaths
from flip27_source.enumerators.files.migration.known_files import CommonPath, common_path

LOGGED_BY_SPARK = {
    "/in/日本.txt": "file:///in/日本.txt",
    "/in/[b]{c}.txt": "file:///in/%5Bb%5D%7Bc%7D.txt",
    "/in/a b.txt": "file:///in/a%20b.txt",
    "/in/s;c,d=e&f.txt": "file:///in/s;c,d=e&f.txt",
    "/in/h#1.txt": "file:///in/h%231.txt",
    "/in/50%.txt": "file:///in/50%25.txt",
    "/in/x+y.txt": "file:///in/x+y.txt",
    "/in/em\U0001f600.txt": "file:///in/em\U0001f600.txt",
    "/in/q?s.txt": "file:///in/q%3Fs.txt",
    "/in/%20.txt": "file:///in/%2520.txt",
    "/in/~x@y!$^.txt": "file:///in/~x@y!$%5E.txt",
    "/in/c1\u0085z.txt": "file:///in/c1%C2%85z.txt",
    "/in/nbsp\u00a0z.txt": "file:///in/nbsp%C2%A0z.txt",
    "/in/back\\slash.txt": "file:///in/back%5Cslash.txt",
    "/in/ls\u2028z.txt": "file:///in/ls%E2%80%A8z.txt",
    "/in/t\tab.txt": "file:///in/t%09ab.txt",
    "/in/q'\"q.txt": "file:///in/q'%22q.txt",
}


@pytest.mark.parametrize(("path", "uri"), LOGGED_BY_SPARK.items())
def test_each_character_is_encoded_as_spark_encodes_it(path: str, uri: str) -> None:
    assert OurPaths()(uri) == path
    assert HadoopUris("/in")(path) == uri


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:/landing/a", "/landing/a"),
        ("file:///landing/a", "/landing/a"),
        ("/landing/a", "/landing/a"),
        ("s3a://in/day=1/a%20b", "s3://in/day=1/a b"),
        ("s3n://in/a", "s3://in/a"),
        ("s3://in/a", "s3://in/a"),
        ("s3a://in//a", "s3://in//a"),
        ("abfss://in@shop.dfs.core.windows.net/a%23b", "abfs://in@shop.dfs.core.windows.net/a#b"),
        ("viewfs://cluster/a", "viewfs://cluster/a"),
        ("dbfs:/mnt/in/a", "dbfs:/mnt/in/a"),
    ],
)
def test_hadoop_schemes_become_the_schemes_of_listings(uri: str, path: str) -> None:
    assert OurPaths()(uri) == path


def test_the_longest_matching_prefix_is_rewritten() -> None:
    ours = OurPaths({"dbfs:/": "/dbfs/", "dbfs:/mnt/in/": "s3a://in/"})
    assert ours("dbfs:/mnt/in/a%20b") == "s3://in/a b"
    assert ours("dbfs:/mnt/other") == "/dbfs/mnt/other"


def test_names_that_are_not_uris_are_kept_unchanged() -> None:
    ours = OurPaths(encoded=False)
    assert ours("s3a://in/50%25") == "s3://in/50%25"
    assert ours("/in/http://x") == "/in/http://x"


def test_the_scheme_of_spark_s_path_is_kept() -> None:
    assert HadoopUris("s3a://in/landing")("s3://in/landing/a b") == "s3a://in/landing/a%20b"
    azure = HadoopUris("abfss://in@shop.dfs.core.windows.net/landing")
    assert azure("abfs://in@shop.dfs.core.windows.net/landing/a") == (
        "abfss://in@shop.dfs.core.windows.net/landing/a"
    )


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
