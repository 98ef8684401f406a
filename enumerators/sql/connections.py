"""Opens the database of the options.

Every error of a driver becomes a DatabaseFailure whose text contains no secret. Callers convert it to an
error of the enumerator or the reader.
"""

from __future__ import annotations

import os
from typing import Any

from flip27_source.enumerators.sql.adbc import AdbcDatabase
from flip27_source.enumerators.sql.database import ArrowDatabase, RowDatabase
from flip27_source.enumerators.sql.options import DRIVER, PASSWORD_ENV, URI, URI_ENV
from flip27_source.enumerators.sql.sqlalchemy_rows import SqlAlchemyDatabase
from flip27_source.errors import OptionError
from flip27_source.options import Options


def connected(options: Options) -> ArrowDatabase | RowDatabase:
    """A new connection.

    Raises:
        DatabaseFailure: the database cannot be reached, or refuses the user.
        OptionError: a driver is not installed, or an environment variable is not set.
    """
    uri, password = _uri(options), _of_environment(options, PASSWORD_ENV)
    driver = options[DRIVER]
    if driver is None:
        return SqlAlchemyDatabase(uri, password)
    return AdbcDatabase(driver, uri, password)


def _uri(options: Options) -> str:
    uri = options[URI]
    if uri is None:
        uri = _of_environment(options, URI_ENV)
    if uri is None:
        raise OptionError("option uri is not set", remedy=f'add .option("uri", ...): {URI.doc}')
    return uri


def _of_environment(options: Options, option: Any) -> str | None:
    name = options[option]
    if name is None:
        return None
    value = os.environ.get(name)
    if value is None:
        raise OptionError(
            f"the environment variable {name} of option {option.name} is not set on this machine",
            remedy="set the variable on the driver and for the Python workers of all executors "
            "(spark.executorEnv.* in the configuration of Spark)",
        )
    return value
