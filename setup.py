"""What setup.cfg cannot say: which packages there are, and where the two folders at the top go.

``enumerators/`` and ``readers/`` are real folders at the top of the repository and sub-packages of
``flip27_source`` in the wheel. The list is computed, so that a new sub-package is never left out.
Everything else is in setup.cfg.
"""

from setuptools import find_packages, setup

PACKAGE = "flip27_source"
TOP_LEVEL_FOLDERS = ("enumerators", "readers")


def with_sub_packages(*names: str) -> list[str]:
    """The patterns that match the packages and everything below them."""
    return [pattern for name in names for pattern in (name, f"{name}.*")]


# The links in flip27_source/ lead to the same folders. Only the real ones are taken: they are there in
# an sdist and in a checkout without symbolic links, too.
links = with_sub_packages(*(f"{PACKAGE}.{folder}" for folder in TOP_LEVEL_FOLDERS))
own = find_packages(include=with_sub_packages(PACKAGE), exclude=links)
linked = find_packages(include=with_sub_packages(*TOP_LEVEL_FOLDERS))

setup(
    packages=own + [f"{PACKAGE}.{name}" for name in linked],
    package_dir={f"{PACKAGE}.{name}": name.replace(".", "/") for name in linked},
    py_modules=["pyspark_flip27", "pyspark_flip27_state"],
)
