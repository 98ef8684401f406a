"""What setup.cfg cannot express: the list of packages, where the two folders at the top belong, and links.

``enumerators/`` and ``readers/`` are real folders at the top of the repository and sub-packages of
``flip27_source`` in the wheel. The list is computed, so that a new sub-package is never left out.

The long description is the README. It is read outside the repository, so its relative links become links
into the repository that ``url`` in setup.cfg names. Without ``url``, a link becomes its text, and pictures
are left out. Everything else is in setup.cfg.
"""

import configparser
import re
from pathlib import Path

from setuptools import find_packages, setup

PACKAGE = "flip27_source"
TOP_LEVEL_FOLDERS = ("enumerators", "readers")


def with_sub_packages(*names: str) -> list[str]:
    """The patterns that match the packages and everything below them."""
    return [pattern for name in names for pattern in (name, f"{name}.*")]


def repository_url(setup_cfg: str) -> str | None:
    """The URL at which the project is published; None if setup.cfg has none."""
    config = configparser.ConfigParser(interpolation=None)
    config.read_string(setup_cfg)
    return config["metadata"].get("url")


def long_description(readme: str, url: str | None) -> str:
    """The README with links that work from anywhere."""

    def link(found: re.Match[str]) -> str:
        mark, text, target = found.groups()
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        if url is None:
            return "" if mark else text
        return f"{mark}[{text}]({url}/{'raw' if mark else 'blob'}/main/{target})"

    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", link, readme)


def project_urls(url: str | None) -> dict[str, str]:
    """The links that package indexes show for the project."""
    if url is None:
        return {}
    return {
        "Documentation": f"{url}/blob/main/docs/index.md",
        "Changelog": f"{url}/blob/main/CHANGELOG.md",
        "Issues": f"{url}/issues",
        "Source": url,
    }


if __name__ == "__main__":
    # The links in flip27_source/ lead to the same folders. Only the real folders are packaged, because an
    # sdist and a checkout without symbolic links also contain them.
    links = with_sub_packages(*(f"{PACKAGE}.{folder}" for folder in TOP_LEVEL_FOLDERS))
    own = find_packages(include=with_sub_packages(PACKAGE), exclude=links)
    linked = find_packages(include=with_sub_packages(*TOP_LEVEL_FOLDERS))

    url = repository_url(Path("setup.cfg").read_text(encoding="utf-8"))

    setup(
        long_description=long_description(Path("README.md").read_text(encoding="utf-8"), url),
        long_description_content_type="text/markdown",
        project_urls=project_urls(url),
        packages=own + [f"{PACKAGE}.{name}" for name in linked],
        package_dir={f"{PACKAGE}.{name}": name.replace(".", "/") for name in linked},
        py_modules=["pyspark_flip27", "pyspark_flip27_state"],
    )
