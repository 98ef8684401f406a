"""The time zone of a task, if Spark has not passed the session's zone."""

from __future__ import annotations

import os

import pytest

from flip27_source.spark.task import _system_time_zone


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("America/New_York", "America/New_York"),
        (":Asia/Tokyo", "Asia/Tokyo"),
        ("/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin"),
    ],
)
def test_the_variable_tz_names_the_zone(monkeypatch: pytest.MonkeyPatch, given: str, found: str) -> None:
    monkeypatch.setenv("TZ", given)
    assert _system_time_zone() == found


@pytest.mark.parametrize("given", ["", ":/etc/localtime", "no zone at all"])
def test_without_the_name_of_a_zone_in_tz_the_machine_decides(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("TZ", given)
    machine = os.path.realpath("/etc/localtime").partition("zoneinfo/")[2] or "UTC"
    assert _system_time_zone() == machine
