"""Random histories of the log have the same rows when they are decoded in blocks and message by message."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flip27_source.readers.postgres.relations import Relation
from tests.readers.postgres.pgoutput_messages import (
    UNCHANGED,
    YEAR_2000_US,
    Value,
    begin,
    commit,
    delete,
    described,
    insert,
    logical_message,
    origin,
    relation,
    truncate,
    type_named,
    update,
)
from tests.readers.postgres.pgoutput_rows import decoded, read_one_by_one

OIDS = (1, 16_400, 2**32 - 1)
VALUES: st.SearchStrategy[Value] = st.one_of(
    st.none(), st.just(UNCHANGED), st.binary(max_size=8), st.binary(min_size=250, max_size=600)
)
TABLES = st.builds(
    relation,
    name=st.sampled_from(["orders", "größe"]),
    columns=st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), max_size=4),
    oid=st.sampled_from(OIDS),
    identity=st.sampled_from("dnfi"),
)


@st.composite
def changes(draw: st.DrawFn, tables: dict[int, Relation]) -> bytes:
    """Draw a change of a known table."""
    table = draw(st.sampled_from(sorted(tables.values(), key=lambda known: known.oid)))
    row = st.lists(VALUES, min_size=len(table.columns), max_size=len(table.columns))
    kind = draw(st.sampled_from("IIIUUDT"))
    if kind == "I":
        return insert(table, *draw(row))
    if kind == "T":
        return truncate(*draw(st.lists(st.sampled_from(sorted(tables)), max_size=3)))
    before = draw(row)
    old_kind = draw(st.sampled_from(["key", "old"]))
    if kind == "D":
        return delete(table, key=before) if old_kind == "key" else delete(table, old=before)
    if draw(st.booleans()):
        return update(table, *draw(row))
    after = draw(row)
    return update(table, *after, key=before) if old_kind == "key" else update(table, *after, old=before)


@st.composite
def histories(draw: st.DrawFn) -> list[bytes]:
    """Draw the messages of some transactions, with descriptions of tables at any place."""
    messages: list[bytes] = []
    tables: dict[int, Relation] = {}
    for number in range(draw(st.integers(0, 6))):
        lsn = 100 * (number + 1)
        xid = draw(st.integers(0, 2**32 - 1))
        messages.append(begin(lsn, at_us=YEAR_2000_US + draw(st.integers(-5, 2**50)), xid=xid))
        for _ in range(draw(st.integers(0, 6))):
            kind = draw(st.sampled_from("RYOMcccccc"))
            if kind == "R" or (kind == "c" and not tables):
                table = draw(TABLES)
                tables[table.oid] = table
                messages.append(described(table))
            elif kind == "c":
                messages.append(draw(changes(tables)))
            else:
                messages.append(
                    {"Y": type_named(9, "mood"), "O": origin("n"), "M": logical_message("p", b"\0I")}[kind]
                )
        messages.append(commit(lsn))
    return messages


@given(data=st.data(), messages=histories())
def test_blocks_give_the_same_rows_as_single_messages(data: st.DataObject, messages: list[bytes]) -> None:
    first, end = data.draw(st.integers(0, 800)), data.draw(st.integers(0, 800))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(messages)), max_size=4)))
    blocks = [messages[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(messages)], strict=True)]
    assert decoded(*blocks, first=first, end=end) == read_one_by_one(messages, first, end)
