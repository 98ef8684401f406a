"""Valid and broken documents that the JSON reader must read as Spark does."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

NUMBERS = [
    b"1", b"-1", b"0", b"-0", b"-0.0", b"0.0", b"1.0", b"1.5", b"1e2", b"1E+2", b"1e-2", b"127", b"128",
    b"200", b"255",
    b"256", b"-128", b"-129", b"32767", b"32768", b"65535", b"2147483647", b"2147483648", b"-2147483648",
    b"-2147483649", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808",
    b"-9223372036854775809", b"123456789012345678901234567890", b"9007199254740993", b"999999999999999999",
    b"1234567890123456789", b"1577836800", b"1577836800.5", b"9223372036854", b"9223372036855", b"0.1",
    b"1e400",
    b"-1e400", b"1e-400", b"4.9e-324", b"2.4e-324", b"1.00000017881393432617187499",
    b"1.000000178813934326171875",
    b"16777217", b"16777219", b"3.4028235e38", b"3.5e38", b"1e39", b"999.995", b"999.994", b"-999.995",
    b"999.99",
    b"1000", b"0.005", b"0.015", b"-0.005", b"0.0049999", b"1e2147483647", b"1e99999999999", b"NaN",
    b"Infinity",
    b"-Infinity", b"+Infinity", b"INF", b"-INF", b"+INF", b"Inf", b"-Inf", b"-NaN", b"nan", b"01",
    b"1.", b".5", b"+1",
    b"1e-99", b"1e99", b"1e-2147483647", b"-", b"--1", b"1e", b"1e+", b"00", b"-01", b"1x", b"0x10",
    b"1.5.5", b"1e5.5", b"1" * 1000, b"1" * 1001,
    b"1" * 1000 + b".5", b"0." + b"1" * 999, b"0." + b"1" * 1000,
]  # fmt: skip
STRINGS = [
    b'""', b'" "', b'"abc"', b'"true"', b'"1"', b'"1.5"', b'"NaN"', b'"Infinity"', b'"-INF"', b'"+INF"',
    b'"inf"',
    b'"a\\qb"', b'"a\\qb, "c":1', b'"a\\u12"', b'"\\u00e9"', b'"\\ud800"', b'"\\udc00"', b'"\\ud83d\\ude00"',
    b'"\\ude00\\ud83d"', b'"a\\u0000b"', b'"tab\there"', b'"\x01"', b'"del\x7f"', b'"\xff"',
    b'"\xc3\xa9"', b'"\xc3"',
    b'"\xc0\x80"', b'"\xed\xa0\x80"', b'"\xed\xa0\xbd\xed\xb8\x80"', b'"\xf0\x9f\x98\x80"',
    b'"\xf8\x88\x80\x80\x80"',
    b'"\xe2\x82"', b"'single'", b"'sin\\'gle'", b"'a\"b'", b'"a\'b"', b'"a\\\'b"', b"'open", b'"open',
    b'"esc\\/ \\b\\f\\n\\r\\t\\\\ \\" end"', b'"2020-01-01"', b'"2020-01-01T00:00:00Z"',
    b'"2020-01-01 12:00:00"',
    b'"2020-1-1"', b'"2020-02-30"', b'"18262"', b'"1,234.56"', b'"1e3"', b'"1e-2147483647"', b'"."',
    b'","', b'"1."',
    b'"1e-99"', b'"1e99"', b'"1e-999"', b'"1\\u0065-2147483647"', b'".5"', b'"-.5e-1"', b'"\xd9\xa1"',
    b'"+1.5"', b'"YWJj"', b'"YWI="', b'"YQ=="', b'"YWI"', b'"YQ"',
    b'"Y"',
    b'"YWJj YWJj"', b'"YW Jj"', b'"YQ==YWJj"', b'"Y!Jj"', b'"YR=="', b'"a-_b"', b'"ab\\/+"',
    b'"\\nYWJj"', b'"YQ=x"',
    b'"YQ=\\u003d"', b'"Y==="',
]  # fmt: skip
OTHERS = [
    b"true", b"false", b"null", b"True", b"nul", b"nullx", b"true1", b"undefined", b"YWJj", b"/*c*/1",
    b"//", b"#",
    b"1/*c*/", b"{}", b"[]", b"[1]", b"[1,2]", b'["x"]', b"[null]", b'{"x":1}', b'{ "x" : 1 }', b"[ 1 , 2 ]",
    b'{"x":"bad","y":"q"}', b'{"x":null}', b'{"x":{"y":1}}', b"[[1]]", b'[{"x":1}]', b'[1,"x",3]',
    b'["x",{"b":5}]',
    b"[1,2", b'{"x":1', b'{"x":tru}', b"[tru]", b"[tru,1]", b'{"x":}', b"[,]", b"[1,]", b"{,}",
    b'{"x":1,}', b"{x:1}",
    b'{"x" 1}', b"[1 2]", b"]", b"}", b'{"x":"a\\qb"}', b'{"x":1,"x":2}', b'{"x":"q","k":8}',
    b'[{"x":"q"},{"x":2}]',
    b'{\x01"x":1}', b'[+1,"z",3]', b'[1,3.]', b'[{"}]', b"[" * 999 + b"]" * 999, b"[" * 1000 + b"]" * 1000,
    b'{"x":' * 999 + b"1" + b"}" * 999, b'{"x":' * 1001 + b"1" + b"}" * 1001,
]  # fmt: skip
VALUES = NUMBERS + STRINGS + OTHERS

TYPES = [
    "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(38,10)",
    "boolean", "string",
    "binary", "date", "timestamp", "timestamp_ntz", "struct<x:int,y:string>", "array<int>", "array<string>",
    "array<double>", "map<string,int>", "map<string,string>", "map<string,struct<x:int>>",
    "array<struct<x:int>>",
    "struct<x:struct<y:int>>", "array<array<int>>", "array<timestamp>", "struct<x:double>",
]  # fmt: skip

LINES = [
    b"", b" ", b"\t", b"\x0b", b"1", b"null", b'"x"', b"true", b"nul", b"[]", b"[ ]", b'[{"k":1}]',
    b'[{"k":1},{"k":2}]',
    b'[{"k":1},null]', b"[null]", b"[1]", b'[{"k":1},1]', b'[{"k":"x"},{"k":2}]',
    b'[{"k":1},{"k":"x"},{"k":3}]',
    b'[{"k":1},{"k":2]', b'[{"k":1}', b'[{"k":1}] x', b'[[{"k":1}]]', b'{"k":1}{"k":2}', b'{"k":1} {"k":2}',
    b'{"k":1} null {"k":2}', b'{"k":1},{"k":2}', b'{"k":1}x', b'{"k":1}}', b'{"k":1', b'{"k":', b'{"k"',
    b'{"k', b'{"',
    b"{", b"}", b"[", b"]", b' \xef\xbb\xbf{"k":1}', b'\xef\xbb\xbf{"k":2}', b"\xef\xbb\xbf", b"\x00",
    b"\x00" * 64,
    b'{\x00"k":1}', b'{"k":1\x00}', b'{"k":1}\x00', b'{"k":1,"k":2}', b'{"k":"x","k":2}', b'{"k":2,"k":"x"}',
    b'{"k":1,"k":null}', b'{"_corrupt_record":"x","k":1}', b'{"K":1}', b'{"":1,"k":2}', b'{"k":1,,"s":2}',
    b'{"k":1 "s":2}', b'{"k"::1}', b'{,"k":1}', b'{"k":1}//x', b'{"c":{"x":1},"c":{"y":"q"}}',
    b'{"c":{"x":"bad","k":5},"k":1}', b'{"m":{"x":"bad","k":5},"k":1}', b'{"m":{"a":1,"a":2}}',
    b'{"l":[{"x":1},{"x":"b"},null]}', b'{"l":[1,{"k":7}],"d":3}', b'{"l":{"k":5},"d":3}',
    b'{"k":[{"k":4}],"d":3}',
    b'{"s":{"a": [1, 2 ,3],"b":"\\u0041\xff"},"k":1}', b'{"s":{"a":"\xff\xfe"},"k":1}', b'{"s":[1,2}',
    b'{"s":1.50}',
    b'{"s":{"a":1},"k":1', b'{"' + b"n" * 50000 + b'":1}', b'{"' + b"n" * 50001 + b'":1}',
    b"{'k':'1','s':'q\\'r'}",
    b'{"\\u006b":1}', b'{"\\ud800":1,"k":1}', b'{"u":"\xff","k":1}', b'{"u":-Inf,"k":1}', b'{"u":NaN,"k":1}',
    b'{"u":1e400,"k":1}', b'{"k\xc3:1}', b'{"k":1,"s":"tab\\\xc3","d":1}', b"{}", b"{ }",
]  # fmt: skip
LINES_SCHEMA = (
    "k int, s string, d double, t timestamp, c struct<x:int,y:string,e:date>, "
    "l array<struct<x:int,w:array<int>>>, m map<string,int>, b boolean, _corrupt_record string"
)

_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.integers(-9, 9), st.floats(allow_nan=False),
    st.text(max_size=4),
    st.sampled_from(["NaN", "2020-01-01", "2020-01-01T10:00:00Z", "2020-1-1 1:2", "YWJj", "1.5"]),
)  # fmt: skip
_TREES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["x", "y", "e", "w", "k", "q"]), inner, max_size=3),
    ),
    max_leaves=5,
)
_FITTING: dict[str, st.SearchStrategy[Any]] = {
    "k": st.integers(-(2**31), 2**31 - 1),
    "s": st.text(max_size=8),
    "d": st.floats(allow_nan=False, allow_infinity=False),
    "t": st.datetimes().map(lambda moment: moment.isoformat()),
    "c": st.fixed_dictionaries({"x": st.integers(-9, 9), "y": st.text(max_size=3), "e": st.dates().map(str)}),
    "l": st.lists(
        st.fixed_dictionaries({"x": st.integers(0, 9), "w": st.lists(st.integers(0, 9))}), max_size=2
    ),
    "m": st.dictionaries(st.text(max_size=2), st.integers(0, 9), max_size=3),
    "b": st.booleans(),
}
_PIECES = [
    b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b" ", b"1", b"-", b".", b"e", b"x", b"\x00",
    b"\x01", b"'", b"null",
    b"tru", b"\\u00", b"N", b"+", b"\\ud800", b"/", b"\t",
]  # fmt: skip


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Draw a line: usually a document that fits LINES_SCHEMA, sometimes with misfits and damage."""
    names = draw(st.lists(st.sampled_from([*_FITTING, "u"]), unique=True))
    values = {n: draw(st.one_of(_FITTING.get(n, _TREES), _FITTING.get(n, _TREES), _TREES)) for n in names}
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    text = json.dumps(values, ensure_ascii=draw(st.booleans()), separators=separators)
    line = text.encode("utf-8", "replace")
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        place = draw(st.integers(0, len(line)))
        line = line[:place] + draw(st.sampled_from(_PIECES)) + line[place + draw(st.integers(0, 2)) :]
    return line
