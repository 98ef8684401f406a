"""An API with six records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.http_api import HttpApi, http_api
from tests.readers.http_api.reading import records


@pytest.fixture
def api() -> Iterator[HttpApi]:
    with http_api() as running:
        running.records = records(*range(6))
        yield running
