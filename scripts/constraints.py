"""Writes deploy/constraints.txt: the versions of the packages that the tests run with.

It contains what flip27-source and its extras for users require, directly or indirectly, as installed in the
environment that runs this script. PySpark and Java are not in it: a cluster brings its own.
"""

from __future__ import annotations

import configparser
import re
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .installed_packages import required

CHECKOUT = Path(__file__).resolve().parent.parent
PAGE = CHECKOUT / "deploy" / "constraints.txt"
FOR_DEVELOPERS = {"dev", "docs", "lint", "notebooks", "release", "spark", "test", "types", "wheel"}
HEAD = """\
# The versions that the tests ran with, on Python {python}, as constraints for pip.
# Written by python -m scripts.constraints. PySpark is not in it: a cluster brings its own.
"""


def direct_requirements() -> list[Requirement]:
    """What setup.cfg requires, and its extras for users."""
    setup = configparser.ConfigParser(interpolation=None)
    setup.read(CHECKOUT / "setup.cfg", encoding="utf-8")
    extras = setup["options.extras_require"]
    texts = [setup["options"]["install_requires"]]
    texts += [extras[name] for name in extras if name not in FOR_DEVELOPERS]
    lines = [line for text in texts for line in text.split("\n")]
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def main() -> None:
    """Write the file, or with --check fail if setup.cfg requires a package that it does not list."""
    if "--check" in sys.argv:
        # Packages that these require differ between versions of Python, and are not compared.
        listed = re.findall(r"^([a-z0-9-]+)==", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
        missing = {canonicalize_name(needed.name) for needed in direct_requirements()} - set(listed)
        if missing:
            sys.exit(f"{PAGE.name} lacks {sorted(missing)}: python -m scripts.constraints")
        return
    try:
        found = required(direct_requirements())
    except PackageNotFoundError as error:
        sys.exit(f"{error.name} is not installed here: make setup")
    head = HEAD.format(python=".".join(map(str, sys.version_info[:2])))
    lines = [f"{name}=={found[name].version}\n" for name in sorted(found)]
    PAGE.write_text(head + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
