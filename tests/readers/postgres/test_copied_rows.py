"""Rows of COPY on a real server."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest

from flip27_source.readers.postgres.copied_rows import copied_rows
from tests.postgres_server import PostgresServer

LIMIT_OF_SELECT = 1024


@pytest.fixture
def many_open_files() -> Iterator[None]:
    """Open more files than ``select`` can wait for."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * LIMIT_OF_SELECT
    if limits[0] != resource.RLIM_INFINITY and limits[0] < wanted:
        if limits[1] != resource.RLIM_INFINITY and limits[1] < wanted:
            pytest.skip(f"the process may open no more than {limits[1]} files (ulimit -Hn)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, limits[1]))
    with ExitStack() as opened:
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        while (number := os.dup(0)) <= LIMIT_OF_SELECT:
            opened.callback(os.close, number)
        opened.callback(os.close, number)
        yield


@pytest.mark.usefixtures("many_open_files")
def test_a_process_with_a_thousand_open_files_can_wait_for_late_rows(postgres: PostgresServer) -> None:
    # The server sends rows whenever its buffer is full.
    statement = "COPY (SELECT repeat('x', 9999), pg_sleep(0.05) IS NULL FROM generate_series(1, 3)) TO STDOUT"
    with psycopg.connect(**postgres.address()) as connection:
        assert connection.fileno() > LIMIT_OF_SELECT
        blocks = list(copied_rows(connection, statement, (), most_rows=10))
    assert [bytes(block.data) for block in blocks] == [3 * (b"x" * 9999 + b"\tf\n")]
