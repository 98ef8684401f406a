"""Classes of a notebook are pickled by value, even after the notebook has used them."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest
from pyspark import cloudpickle

from flip27_source.spark.registration import drop_type_caches


@dataclass(frozen=True)
class Place:
    name: str


def test_a_split_whose_values_were_stored_before_can_still_be_pickled_by_value_and_stored_again() -> None:
    @dataclass(frozen=True)
    class Letter:
        split_id: str
        place: Place

    stored = msgspec.json.encode(Letter("a", Place("here")))
    assert msgspec.json.decode(stored, type=Letter) == Letter("a", Place("here"))
    with pytest.raises(TypeError, match="cannot pickle"):
        cloudpickle.dumps(Letter)
    drop_type_caches()
    travelled = cloudpickle.loads(cloudpickle.dumps(Letter))
    assert travelled("a", Place("here")).split_id == "a"
    assert msgspec.json.decode(stored, type=Letter) == Letter("a", Place("here"))
