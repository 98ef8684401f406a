"""The notebooks, with their outputs, and the recipes in deploy/ as pages of the site: a hook of mkdocs.

It is named in mkdocs.yml. The pages are generated when the site is built, and stored nowhere else. They are
Markdown, so that their links are checked and their text can be searched like that of every other page.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
FOLDER = "notebooks"
RECIPES = NOTEBOOKS.parent / "deploy"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook, and the pictures in it, and the files of the recipes."""
    for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
        for name, content in page_of(notebook).items():
            files.append(File.generated(config, f"{FOLDER}/{name}", content=content))
    for file in sorted(RECIPES.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            text = re.sub(r"\]\(((?:\.\./)+)docs/", r"](\1", file.read_text(encoding="utf-8"))
            name = f"deploy/{file.relative_to(RECIPES).as_posix()}"
            files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Let links to notebooks and recipes, which are valid in the repository, lead to their pages."""
    markdown = re.sub(r"\]\(\.\./notebooks/(\w+)\.ipynb\)", rf"]({FOLDER}/\1.md)", markdown)
    return markdown.replace("](../deploy/", "](deploy/")


def page_of(notebook: Path) -> dict[str, str | bytes]:
    """The page of a notebook, as Markdown, and its pictures, by file name."""
    text, resources = MarkdownExporter().from_filename(str(notebook))  # type: ignore[no-untyped-call]
    pictures = {name: f"{notebook.stem}_{name}" for name in resources["outputs"]}
    for name, unique in pictures.items():
        text = text.replace(f"]({name})", f"]({unique})")
    page = text.replace("](../docs/", "](../").replace(".ipynb)", ".md)")
    return {f"{notebook.stem}.md": page} | {
        unique: resources["outputs"][name] for name, unique in pictures.items()
    }
