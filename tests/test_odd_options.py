"""Every option of every source takes any text: it is used, or refused with an error that names the option."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flip27_source.errors import OptionError
from flip27_source.options import Option, Options
from scripts.options_table import tables
from tests.odd_values import ODD_TEXTS


def declared() -> Iterator[Any]:
    for title, options in tables():
        for option in options:
            yield pytest.param(option, id=f"{title}: {option.name}")


@pytest.mark.filterwarnings("ignore::FutureWarning")  # regular expressions
@pytest.mark.parametrize("option", list(declared()))
def test_an_odd_value_of_an_option_is_used_or_refused_by_name(option: Option[Any]) -> None:
    for text in ODD_TEXTS:
        try:
            Options.parse({option.name: text}, [option])
        except OptionError as error:
            assert option.name in str(error)
