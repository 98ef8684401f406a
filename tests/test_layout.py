"""The layout of the tree: the directions of imports, and the places and names of modules.

Everything is read from the tree itself; no module is named here that does not have to exist.
"""

from __future__ import annotations

import ast
import configparser
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent
PACKAGE = "flip27_source"
LINKED_FOLDERS = ("enumerators", "readers")

FACADE = "facade"  # flip27_source/__init__.py
TYPES = "the author's types"  # the other modules directly in flip27_source/

GUIDE = (TOP / "CONTRIBUTING.md").read_text(encoding="utf-8")
NAMES_IN_THE_GUIDE = {f"{PACKAGE}/__init__.py": FACADE, f"{PACKAGE}/*.py": TYPES, PACKAGE: FACADE}


def arrows_in_the_guide() -> dict[str, set[str]]:
    """Which part may import which others: what the guide's table says, the part itself, and TYPES."""
    rows = re.findall(r"^\| `([^`]+)` \| [^|]+ \| ?([^|]*) ?\|$", GUIDE, re.MULTILINE)
    named = {NAMES_IN_THE_GUIDE.get(part, part): imported.strip().split(", ") for part, imported in rows}
    return {
        part: {TYPES, part, *(NAMES_IN_THE_GUIDE.get(name, name) for name in imported if name)}
        for part, imported in named.items()
    }


ARROWS = arrows_in_the_guide()

DECIDING_MODULES = {f"{PACKAGE}.coordination.{name}" for name in ("coordinator", "gateway")}
"""The modules that decide; ``snapshots`` stores the values of ``coordination`` and must not import these."""

PYSPARK_ALLOWED = {"spark", "native", "metrics", "cli", "pytest_plugin"}
"""``native`` reads within a query, and ``metrics`` listens to queries; ``cli`` starts sessions for the demo,
and ``pytest_plugin`` for the tests of users."""

NOT_PURE = {
    "asyncio", "datetime.datetime.now", "datetime.datetime.today", "datetime.datetime.utcnow", "fsspec", "io",
    "multiprocessing", "os", "pathlib", "pyarrow.fs", "pyspark", "random", "secrets", "shutil", "socket",
    "subprocess", "tempfile", "threading", "time", "uuid",
}  # fmt: skip
"""I/O, clocks, threads and randomness: the pure parts are given what they need of them."""

CONTRACT = {
    "DiscoveringEnumerator", "Discovery", "Progress", "SourceEvent", "SourceSplit", "SplitEnumerator",
    "SplitEnumeratorContext", "SplitReader", "register",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A module of the package: its dotted name and its file, which is not a link."""

    name: str
    file: Path

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.file.read_text(encoding="utf-8"))

    @property
    def part(self) -> str:
        """The row of ARROWS that the module belongs to."""
        if self.name == PACKAGE:
            return FACADE
        rest = self.name.split(".")[1:]
        return rest[0] if len(rest) > 1 or self.file.name == "__init__.py" or rest[0] in ARROWS else TYPES


def modules_of_the_package() -> Iterator[Module]:
    linked = [(TOP / folder, f"{PACKAGE}.{folder}") for folder in LINKED_FOLDERS]
    own = [(TOP / PACKAGE, PACKAGE)]
    for folder, name in own + linked:
        for file in sorted(folder.rglob("*.py")):
            inside = file.relative_to(folder)
            if folder == TOP / PACKAGE and inside.parts[0] in LINKED_FOLDERS:
                continue
            parts = [name, *inside.with_suffix("").parts]
            yield Module(name=".".join(parts).removesuffix(".__init__"), file=file)


MODULES = list(modules_of_the_package())


def imports(module: Module, *, for_types: bool = True) -> set[str]:
    """The dotted names that a module imports anywhere in its code; ``from a import b`` imports ``a.b``.

    ``for_types``: with what is imported only for annotations.
    """
    is_package = module.file.name == "__init__.py"
    found: set[str] = set()
    nodes = list(ast.walk(module.tree))
    if not for_types:
        conditions = [node for node in nodes if isinstance(node, ast.If)]
        annotations = [node for node in conditions if ast.unparse(node.test) == "TYPE_CHECKING"]
        only_types = {inner for node in annotations for inner in ast.walk(node)}
        nodes = [node for node in nodes if node not in only_types]
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = module.name.split(".")
                up = up[: len(up) - node.level + is_package]
                base = ".".join([*up, *filter(None, [node.module])])
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found


def owner(dotted: str) -> Module:
    """The module of the package that contains an imported name."""
    by_name = {module.name: module for module in MODULES}
    while dotted not in by_name:
        dotted = dotted.rpartition(".")[0]
    return by_name[dotted]


def is_or_is_in(dotted: str, name: str) -> bool:
    return dotted == name or dotted.startswith(name + ".")


def test_imports_follow_the_arrows() -> None:
    wrong = []
    for module in MODULES:
        allowed = ARROWS.get(module.part, set()) | {module.part}
        targets = {owner(name) for name in imports(module) if is_or_is_in(name, PACKAGE)}
        wrong += [f"{module.name} -> {target.name}" for target in targets if target.part not in allowed]
    assert sorted(wrong) == []


def test_every_part_of_the_package_is_in_the_table_of_the_guide() -> None:
    assert {module.part for module in MODULES} == ARROWS.keys()


def test_the_contributors_guide_names_files_that_exist() -> None:
    section = GUIDE.partition("## Where is")[2].partition("\n## ")[0]
    files = re.findall(r"`([\w/]+(?:\.py|\.md|\.cfg|/))`", section)
    assert len(files) > 30
    at_the_top = (*LINKED_FOLDERS, "docs", "setup.cfg")
    wrong = [n for n in files if not (TOP / n if n.startswith(at_the_top) else TOP / PACKAGE / n).exists()]
    assert wrong == []


def test_modules_import_in_a_circle_only_where_a_docstring_names_the_other_module() -> None:
    graph = {}
    for module in MODULES:
        docstring = ast.get_docstring(module.tree) or ""
        names = {name for name in imports(module, for_types=False) if is_or_is_in(name, PACKAGE)}
        targets = {owner(name).name for name in names} - {module.name}
        graph[module.name] = {name for name in targets if f"``{name.rpartition('.')[2]}``" not in docstring}
    TopologicalSorter(graph).prepare()


def test_the_snapshots_package_does_not_import_deciding_modules() -> None:
    names = [name for module in MODULES if module.part == "snapshots" for name in imports(module)]
    ours = {owner(name).name for name in names if is_or_is_in(name, PACKAGE)}
    assert ours & DECIDING_MODULES == set()


def test_only_the_spark_package_imports_pyspark() -> None:
    others = [module for module in MODULES if module.part not in PYSPARK_ALLOWED]
    assert [m.name for m in others if any(is_or_is_in(name, "pyspark") for name in imports(m))] == []


@pytest.mark.parametrize("part", ["coordination", "snapshot_then_log"])
def test_a_pure_part_uses_no_input_output_clock_or_thread(part: str) -> None:
    wrong = [f"{m.name}: {name}" for m in MODULES if m.part == part for name in impurities(m)]
    assert wrong == []


def impurities(module: Module) -> set[str]:
    """The imports and calls of a module that make its results depend on more than its arguments."""
    impure = {name for name in imports(module) for bad in NOT_PURE if is_or_is_in(name, bad)}
    tree = module.tree
    clocks = {
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}
    }
    calls = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"open", "print"}
    }
    return impure | clocks | calls


def test_everything_logs_to_the_one_logger_which_adds_its_ids_to_records() -> None:
    """A record of a logger below it reaches its handlers without them, and cannot be formatted."""
    made = [
        f"{module.name}:{node.lineno}"
        for module in MODULES
        if module.name != f"{PACKAGE}.log"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("getLogger")
        if re.match(rf"__name__$|'{PACKAGE}", ast.unparse(node.args[0]))
    ]
    assert made == []


def test_importing_the_package_loads_neither_pyspark_nor_file_systems() -> None:
    code = f"import {PACKAGE}, sys; print([m for m in ('pyspark', 'fsspec', 'pandas') if m in sys.modules])"
    assert run_python(code, cwd=TOP) == "[]"


def test_a_coordinator_loads_nothing_that_only_executors_or_commands_need() -> None:
    code = f"""
import sys
import {PACKAGE}.driver.holder
from {PACKAGE}.registry import find_enumerator, find_reader

find_enumerator("postgres"), find_reader("postgres")
unneeded = ("edits.dry_run", "savepoints.management", "state_tables.history", "enumerators.postgres.check",
            "readers.postgres.pgoutput", "readers.postgres.debezium_rows")
print([name for name in unneeded if "{PACKAGE}." + name in sys.modules])
"""
    assert run_python(code, cwd=TOP) == "[]"


def test_spark_can_find_the_format_from_any_folder(tmp_path: Path) -> None:
    code = "import pkgutil; print('pyspark_flip27' in {module.name for module in pkgutil.iter_modules()})"
    assert run_python(code, cwd=tmp_path) == "True"


def run_python(code: str, *, cwd: Path) -> str:
    outcome = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False, timeout=60
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout.strip()


def test_the_public_names_exist() -> None:
    package = importlib.import_module(PACKAGE)
    assert set(package.__all__) >= CONTRACT
    assert [name for name in package.__all__ if not hasattr(package, name)] == []


def entry_points() -> list[tuple[str, str]]:
    config = configparser.ConfigParser(interpolation=None)
    config.read(TOP / "setup.cfg", encoding="utf-8")
    lines = [line for group in config["options.entry_points"].values() for line in group.split("\n") if line]
    return [(name.strip(), target.strip()) for name, target in (line.split("=") for line in lines)]


@pytest.mark.parametrize(("name", "target"), entry_points(), ids=lambda text: text)
def test_an_entry_point_leads_to_a_class_a_function_or_a_plugin(name: str, target: str) -> None:
    module, _, class_name = target.partition(":")
    found = importlib.import_module(module)
    if class_name:
        assert callable(found.main) if name == "flip27" else isinstance(getattr(found, class_name), type)
    else:
        assert hasattr(found, "flip27_engine")


@pytest.mark.parametrize("folder", LINKED_FOLDERS)
def test_a_top_level_folder_is_linked_with_a_relative_path(folder: str) -> None:
    link = TOP / PACKAGE / folder
    assert os.readlink(link) == os.path.join("..", folder)
    assert link.resolve() == TOP / folder


@pytest.mark.parametrize("folder", LINKED_FOLDERS)
def test_git_stores_the_links_as_links(folder: str) -> None:
    assert git("ls-files", "--stage", f"{PACKAGE}/{folder}").startswith("120000 ")


def git(*arguments: str) -> str:
    if not (TOP / ".git").exists():
        pytest.skip("not a git checkout")
    return subprocess.run(["git", *arguments], cwd=TOP, capture_output=True, text=True, check=True).stdout


PYTHON_FILES = sorted(
    {module.file for module in MODULES}
    | {file for folder in ("benchmarks", "examples", "scripts") for file in (TOP / folder).rglob("*.py")}
    | set(TOP.glob("*.py"))
)


def test_no_module_is_named_like_one_of_pythons_own() -> None:
    named = [str(file.relative_to(TOP)) for file in PYTHON_FILES if file.stem in sys.stdlib_module_names]
    assert [name for name in named if not Path(name).stem.startswith("__")] == []


def test_every_module_has_a_docstring() -> None:
    texts = {module.name: module.file.read_text(encoding="utf-8") for module in MODULES}
    assert [n for n, text in texts.items() if text.strip() and not ast.get_docstring(ast.parse(text))] == []


MACHINE_PATH = re.compile(r"(?<![\w.}$])/(?:work|root|home/\w+|Users/\w+|opt/py\w*)/")
REGISTRY = re.compile(
    r"(?:extra-)?index-url|https?://[^\s\"')]*/simple\b|pypi\.python\.org|files\.pythonhosted"
)


def test_no_file_names_a_machine_path_or_a_package_registry() -> None:
    hits = []
    for name in git("ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        file = TOP / name
        if file == Path(__file__) or file.is_symlink() or not file.is_file():
            continue
        text = file.read_bytes().decode("utf-8", errors="replace")
        hits += [f"{name}: {m[0]}" for pattern in (MACHINE_PATH, REGISTRY) for m in pattern.finditer(text)]
    assert hits == []


def test_no_test_is_parametrized_in_an_order_that_differs_between_processes() -> None:
    """Tests that run in parallel are collected in each process, and the collections must be the same."""
    found = []
    for file in sorted((TOP / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("parametrize"):
                found += [f"{file.name}:{at.lineno}" for at in ast.walk(node) if _has_no_order(at)]
    assert found == []


MOST_PRIVATE_READS = 20
_OWN_OR_PUBLIC = ("self", "cls", "super()", "KafkaError")
"""The errors of librdkafka's client itself have public names with an underscore."""


def test_tests_read_hardly_any_private_state() -> None:
    """A test that reads it forbids changes that users cannot notice."""
    private = [
        f"{file.relative_to(TOP)}:{node.lineno}: {ast.unparse(node)}"
        for file in sorted((TOP / "tests").rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
        if re.match("_[^_]", node.attr) and ast.unparse(node.value) not in _OWN_OR_PUBLIC
    ]
    assert len(private) <= MOST_PRIVATE_READS, "\n".join(private)


def _has_no_order(node: ast.AST) -> bool:
    """Whether the node unpacks a set or the entries of a folder without sorting them."""
    spread = node.value if isinstance(node, ast.Starred) else node
    is_set = isinstance(spread, ast.Set | ast.SetComp) and isinstance(node, ast.Starred)
    return is_set or (isinstance(node, ast.Starred) and "iterdir" in ast.unparse(spread)[:60])
