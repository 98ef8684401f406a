"""The app: help, exit codes, completion and missing libraries; no command prints a secret."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import pytest
import typer
from rich.cells import cell_len
from rich.console import Console

from flip27_source import __version__, savepoints
from flip27_source.cli.app import COMMANDS as SUMMARIES
from flip27_source.cli.app import GROUPS, whole_app
from flip27_source.cli.commands import FileSystem, pairs
from flip27_source.cli.rendering import Answer, Rendering, Table, cell_text
from flip27_source.file_systems.secrets_in_texts import Hidden
from flip27_source.state_tables.views import VIEWS
from scripts.cli_page import commands
from tests.cli.command_line import flip27, three_batches
from tests.cli.spark_query import SparkQuery
from tests.driver.test_poisoned_requests import Telltale

SECRET = "hunter2-is-my-secret"


APP: Any = typer.main.get_command(whole_app())
COMMANDS = {tuple(words.split()[1:]): command for words, command in commands()}
PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_page_has_an_example_of_every_command_and_names_every_option(words: tuple[str, ...]) -> None:
    called = f"flip27 {' '.join(words)}"
    section = PAGE.partition(f"## {called}\n")[2].partition("\n## ")[0]
    assert f"```bash\n{called} " in section or f"```bash\n{called}\n" in section
    assert "`--json` prints" in section
    for parameter in COMMANDS[words].params:
        is_option = parameter.param_type_name == "option"
        assert f"`{parameter.opts[0] if is_option else parameter.metavar}" in section
    assert "None" not in section


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_the_option_json_and_describes_itself_and_its_options(
    words: tuple[str, ...],
) -> None:
    command = COMMANDS[words]
    assert command.help
    assert "--json" in [option for parameter in command.params for option in parameter.opts]
    assert [parameter.name for parameter in command.params if not parameter.help] == []
    said = flip27(*words, "--help")
    assert said.code == 0
    assert "Usage: flip27 " + " ".join(words) in said.out


def test_the_list_of_commands_repeats_the_description_of_each_command() -> None:
    assert {name: APP.commands[name].help.partition("\n\n")[0].replace("\n", " ") for name in SUMMARIES} == (
        SUMMARIES
    )
    assert {name: APP.commands[name].help for name in GROUPS} == GROUPS
    assert [*APP.commands] == [*SUMMARIES, *GROUPS]


HEAVY = ("pyarrow", "numpy", "fsspec", "pyspark", "pandas")


@pytest.mark.parametrize("words", [["--help"], ["--version"], []], ids=" ".join)
def test_listing_the_commands_imports_nothing_heavy(words: list[str]) -> None:
    code = (
        "import sys\nfrom flip27_source.cli.main import main\n"
        f"code = main({words!r})\n"
        f"sys.exit(', '.join(name for name in {HEAVY!r} if name in sys.modules) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1:] == [], done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize(
    "words", [(), *sorted({words[:-1] for words in COMMANDS if words[:-1]}), *COMMANDS], ids=" ".join
)
def test_help_shows_no_type_for_a_flag(words: tuple[str, ...]) -> None:
    said = flip27(*words, "--help").out
    assert "--help" in said
    assert "bool" not in said.lower()


def test_an_option_has_the_same_metavar_in_every_command() -> None:
    """Each kind of value, such as a checkpoint's number or a state location, has one name everywhere."""
    kinds: dict[str, set[str]] = {}
    for command in COMMANDS.values():
        for parameter in command.params:
            for name in parameter.opts:
                if parameter.metavar == "SPARK_CHECKPOINT":
                    continue  # the checkpoint of a query of another source
                kinds.setdefault(name, set()).add(parameter.metavar or "")
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {}
    assert {"--state-location", "--from"} & kinds.keys() == set()


def test_the_version_is_printed() -> None:
    assert flip27("--version").out == f"{__version__}\n"


@pytest.mark.parametrize("words", [[], ["state"], ["savepoint"]])
def test_help_is_shown_if_no_command_is_given(words: list[str]) -> None:
    said = flip27(*words)
    assert said.code in (0, 2)  # it depends on the version of Typer
    assert "Usage" in said.out + said.err


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_the_error_about_a_missing_library_says_how_to_install_it(missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; "
        "from flip27_source.cli.main import main; sys.exit(main(['--version']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"the package {missing} is missing" in done.stderr
    assert "pip install 'flip27-source[cli]'" in done.stderr


def completions(line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what bash is offered as completions of a line."""
    monkeypatch.setenv("_FLIP27_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    return flip27().out.split()


def test_the_shell_completes_commands_options_and_values(monkeypatch: pytest.MonkeyPatch) -> None:
    assert completions("flip27 sa", monkeypatch) == ["savepoint"]
    assert {"show", "splits", "files", "history", "diff"} <= set(completions("flip27 state ", monkeypatch))
    assert "--lineage" in completions("flip27 state show --li", monkeypatch)
    assert completions("flip27 state splits --status q", monkeypatch) == ["quarantined"]


def test_the_completion_script_can_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_FLIP27_COMPLETE", "source_zsh")
    assert "_FLIP27_COMPLETE" in flip27().out
    options = [option for item in APP.params for option in item.opts]
    assert {"--install-completion", "--show-completion"} <= set(options)


@dataclass(frozen=True)
class Places:
    """The file system on which the commands run, and the name of a savepoint in it."""

    remote: str
    savepoint: str


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a query and a savepoint of it."""
    root = tmp_path_factory.mktemp("origin")
    query = three_batches(root)
    savepoints.create(state=str(query.checkpoint / "flip27"), to=str(root / "saved"))
    of_spark = SparkQuery(root / "spark")
    of_spark.read("a")
    (root / "spark/names.txt").write_text("/in/a\n")
    return root


@pytest.fixture
def places(origin: Path) -> Places:
    memory = fsspec.filesystem("memory")
    memory.rm("/", recursive=True)
    for file in origin.rglob("*"):
        if file.is_file():
            memory.pipe_file(f"/secrets/{file.relative_to(origin)}", file.read_bytes())
    (saved,) = (origin / "saved").iterdir()
    return Places("memory://secrets", saved.name)


def words_for(command: tuple[str, ...], places: Places) -> list[str]:
    """Return valid arguments for each command that takes a location."""
    remote = places.remote
    state, saved = f"{remote}/checkpoint", f"{remote}/saved/{places.savepoint}"
    edited = ["--state", f"{state}/flip27"]
    changed = [*edited, "--why", "a test"]
    of_a_split = [*changed, "--split", "a"]
    return {
        ("check",): ["--path", f"{remote}/landing", "--reader", "text", "--state", f"{remote}/probe",
                     "--option", f"storage.token={SECRET}"],
        ("ui",): ["--state", state, "--export", os.devnull],
        ("watch",): [state, "--once"],
        ("export-metrics",): ["--state", state, "--once"],
        ("retire",): [state],
        ("state", "show"): [state],
        ("state", "splits"): [state],
        ("state", "files"): [state],
        ("state", "history"): [state],
        ("state", "diff"): [f"{state}@1", f"{state}@2"],
        ("savepoint", "create"): ["--state", f"{state}/flip27", "--to", f"{remote}/further"],
        ("savepoint", "list"): [f"{remote}/saved"],
        ("savepoint", "show"): [saved],
        ("savepoint", "verify"): [saved],
        ("savepoint", "delete"): [saved, "--yes"],
        ("savepoint", "request"): [*edited, "--to", "/nowhere"],
        ("savepoint", "withdraw"): ["0f3a5c1e", *edited],
        ("savepoint", "requests"): edited,
        ("savepoint", "restore"): [saved, "--checkpoint-location", f"{remote}/fork"],
        **dict.fromkeys((("edit", verb) for verb in ("skip", "replay", "forget")), of_a_split),
        **dict.fromkeys((("edit", "quarantine", verb) for verb in ("retry", "drop")), of_a_split),
        ("edit", "rewind"): [*changed, "--to-checkpoint", "1"],
        ("edit", "set-position"): [*of_a_split, "--position", "{}"],
        ("edit", "list"): edited,
        ("edit", "withdraw"): ["0f3a5c1e", *edited],
        ("import", "kafka"): ["--checkpoint", f"{remote}/old"],
        ("import", "spark-files"): ["--checkpoint", f"{remote}/spark/old", "--state", f"{remote}/new",
                                    "--execute"],
        ("import", "list"): ["--file", f"{remote}/spark/names.txt", "--state", f"{remote}/new", "--execute"],
        ("export", "spark-files"): ["--state", f"{state}/flip27", "--checkpoint", f"{remote}/by-spark",
                                    "--option", f"path={remote}/landing", "--execute"],
        ("postgres", "drop"): [state, "--database", "shop"],
    }[command]  # fmt: skip


PLACED = [
    words
    for words, command in COMMANDS.items()
    # Commands of notifications call AWS; tests/cli/test_notification_commands.py has the same tests for them.
    if any(p.name == "storage" for p in command.params) and words[0] != "notifications"
]
NEED_MORE = {
    ("savepoint", "restore"),
    ("savepoint", "withdraw"),
    ("savepoint", "requests"),
    ("import", "kafka"),
    ("postgres", "drop"),
}
ANSWERING = [words for words in PLACED if words[0] != "edit" and words not in NEED_MORE]
"""The commands that succeed with these arguments; the others have separate tests."""


@pytest.mark.parametrize("as_json", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("words", ANSWERING, ids=" ".join)
def test_no_command_prints_a_secret(words: tuple[str, ...], as_json: list[str], places: Places) -> None:
    nested = json.dumps({"password": SECRET})
    storage = ["--storage", f"secret={SECRET}", "--storage", f"client_kwargs={nested}"]
    said = flip27(*words, *words_for(words, places), *storage, *as_json)
    assert said.code == 0, said
    assert said.out != ""
    assert SECRET not in said.out + said.err


@pytest.mark.parametrize("words", ANSWERING, ids=" ".join)
def test_every_field_of_a_json_answer_is_documented(words: tuple[str, ...], places: Places) -> None:
    data = flip27(*words, *words_for(words, places), "--json").data
    fields = set(data[0] if isinstance(data, list) else data)
    told = COMMANDS[words].epilog.partition("JSON: ")[2]
    of_views = [view for view in VIEWS.values() if f"of the view {view.name}" in told]
    documented = set(re.findall(r"\w+", told)) | {column.name for view in of_views for column in view.columns}
    assert fields <= documented


@pytest.mark.parametrize("words", PLACED, ids=" ".join)
def test_no_error_prints_a_secret(words: tuple[str, ...], places: Places) -> None:
    fsspec.register_implementation("telltale", Telltale, clobber=True)
    said = [word.replace("memory://", f"telltale://me:{SECRET}@") for word in words_for(words, places)]
    for as_json in ([], ["--json"]):
        answered = flip27(*words, *said, "--storage", f"key={SECRET}", *as_json)
        assert answered.code in (1, 3)
        assert "told by the server" in answered.out + answered.err
        assert SECRET not in answered.out + answered.err


def test_a_secret_is_hidden_at_any_depth_and_by_any_name_of_a_credential() -> None:
    given = {
        "secret": "abcdef",
        "client_kwargs": '{"aws_secret_access_key": "ghijkl", "endpoint_url": "http://host"}',
        "headers": '{"X-Api": "mnopqr"}',
        "authToken": "stuvwx",
        "token": {"private": ["yzabcd"]},
        "endpoint_url": "http://shown",
    }
    hidden = Hidden(given)
    text = "abcdef ghijkl mnopqr stuvwx yzabcd http://host http://shown s3://me:pass@bucket/a@b"
    assert hidden.in_text(text) == "*** *** *** *** *** http://host http://shown s3://bucket/a@b"
    assert hidden.in_data({"a": ["abcdef", 1, None]}) == {"a": ["***", 1, None]}


def test_storage_options_are_read_as_the_source_reads_them() -> None:
    given = ["key=0123", "anon=true", 'client_kwargs={"a": 1}', "url=http://host?a=b"]
    assert FileSystem(storage=given).options == {
        "key": "0123",
        "anon": True,
        "client_kwargs": {"a": 1},
        "url": "http://host?a=b",
    }


@pytest.mark.parametrize("text", [SECRET, f"={SECRET}"])
def test_an_invalid_pair_is_wrong_usage_and_is_not_echoed(text: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        pairs([text], "--storage")
    assert SECRET not in str(caught.value)


def test_cells_are_printed_in_a_readable_form() -> None:
    values = [None, True, 1200, 0.25, "a", ["b"], {"c": 1}]
    assert [cell_text(value) for value in values] == ["", "yes", "1200", "0.2", "a", '["b"]', '{"c":1}']


TABLE = Answer(data=None, shown=[Table(columns=("a_b", "c"), rows=[("x\ty", "1\n2"), (None, 3)])])


def rendered(answer: Answer, **console: Any) -> str:
    out = io.StringIO()
    Rendering(Console(file=out, **console), Console(file=out), as_json=False, hidden=Hidden({})).answer(
        answer
    )
    return out.getvalue()


def on_terminal(answer: Answer, width: int = 40) -> str:
    return rendered(answer, force_terminal=True, color_system=None, width=width)


def test_a_table_is_drawn_on_a_terminal_and_printed_as_plain_lines_elsewhere() -> None:
    assert rendered(TABLE) == "a_b   c\nx\\ty  1\\n2\n-     3\n"
    drawn = on_terminal(TABLE)
    assert "a b" in drawn
    assert "─" in drawn


def test_columns_are_aligned_without_a_terminal() -> None:
    table = Table(
        columns=("path", "rows", "at"),
        rows=[
            ("/landing/日本.json", None, dt.datetime(2026, 1, 3, 10, 0, 0, 250_000, tzinfo=dt.UTC)),
            ("/a b", 12, dt.datetime(2026, 1, 3, 11, 0, tzinfo=dt.timezone(dt.timedelta(hours=1)))),
        ],
    )
    assert rendered(Answer(data=None, shown=[table])).splitlines() == [
        "path                rows  at",
        "/landing/日本.json  -     2026-01-03T10:00:00.250Z",
        "/a b                12    2026-01-03T10:00:00Z",
    ]


def test_a_table_without_a_terminal_is_narrower_than_120_columns() -> None:
    found = " ".join(["no bytecode"] * 12)
    table = Table(columns=("status", "found", "what_to_do"), rows=[("warning", found, "run flip27 tune")])
    printed = rendered(Answer(data=None, shown=[table])).splitlines()
    assert max(map(cell_len, printed)) == 119
    assert printed[1].split() == ["warning", *["no", "bytecode"] * 7, "no", "run", "flip27", "tune"]
    assert printed[2].split() == ["bytecode", *["no", "bytecode"] * 4]


def test_a_long_path_is_not_divided_without_a_terminal() -> None:
    table = Table(columns=("path", "error"), rows=[("/日本" * 60, "it is not UTF-8")])
    assert rendered(Answer(data=None, shown=[table])).splitlines()[1:] == [
        "/日本" * 60 + "  it is",
        " " * 302 + "not",
        " " * 302 + "UTF-8",
    ]


def test_control_characters_in_a_file_name_never_reach_the_terminal() -> None:
    name = "a\x1b[2J\u202egpj.json"
    answer = Answer(data=[name], shown=[Table(columns=("path",), rows=[(name,)]), name], notes=[name])
    for printed in (rendered(answer), on_terminal(answer, 60)):
        assert printed.count("a\\x1b[2J\\u202egpj.json") == 3
        assert "\x1b" not in printed


def test_columns_without_any_value_are_left_out_on_a_terminal() -> None:
    table = Table(columns=("path", "rows"), rows=[("[bold]a.json", None), ("b.json", None)])
    drawn = on_terminal(Answer(data=None, shown=[table]))
    assert "rows" not in drawn
    assert "[bold]a.json" in drawn


def test_nothing_is_cut_off_on_a_narrow_terminal() -> None:
    columns = [f"column_{number}" for number in range(8)]
    table = Table(columns=columns, rows=[[f"value{number}" for number in range(8)]])
    for width in (30, 60, 120):
        drawn = on_terminal(Answer(data=None, shown=[table]), width)
        letters = "".join(drawn.split())
        assert [letter for letter in "01234567" if letter not in letters] == []
