"""A MariaDB server on this machine, for tests: on loopback, in a folder of its own, gone when the tests end.

On first use Debian's packages are unpacked into the virtual environment, where they stay: they are not
installed, so no service starts and nothing else on the machine changes. The account ``root`` has no password.
``MysqlServer.account`` makes an account that needs one.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.deadline import until
from tests.debian_packages import finished, unpack, unpacked
from tests.postgres_server import HOST, free_port
from tests.server_process import ServerProcess, kept_folder

if TYPE_CHECKING:
    import pymysql

PACKAGES = ("mariadb-server-core", "mariadb-client", "libaio1", "libnuma1", "liburing2")
"""Those with the server, and with libraries that Debian's smallest installation lacks."""

SUPERUSER = "root"

# Without syncs a killed server still finds what it wrote at each commit; only a crash of the machine would
# lose that.
SETTINGS = {
    "server_id": "1", "log_bin": "binlog", "binlog_format": "ROW", "binlog_row_metadata": "FULL",
    "sync_binlog": "0", "innodb_flush_log_at_trx_commit": "2", "innodb_buffer_pool_size": "32M",
    "innodb_log_file_size": "8M", "max_connections": "1000", "character_set_server": "utf8mb4",
    "skip_name_resolve": "ON", "performance_schema": "OFF",
}  # fmt: skip

_FIRST_STATEMENTS = f"""\
SET sql_log_bin = 0;
CREATE USER IF NOT EXISTS '{SUPERUSER}'@'{HOST}' IDENTIFIED BY '';
GRANT ALL PRIVILEGES ON *.* TO '{SUPERUSER}'@'{HOST}' WITH GRANT OPTION;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account that logs in with a password."""

    name: str
    password: str


class MysqlServer(ServerProcess):
    """A server with its own data folder, created and started by ``mysql_server``.

    Attributes:
        port: the same for the whole life of the server, also after a restart.
    """

    def __init__(self, *, folder: Path, keeper: subprocess.Popen[bytes], settings: Mapping[str, str]) -> None:
        super().__init__(folder, keeper)
        self.port = free_port()
        self._settings = {**SETTINGS, **settings}
        shutil.copytree(_home() / "data", folder / "data")
        (folder / "first.sql").write_text(_FIRST_STATEMENTS)

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        places = {
            "datadir": self._folder / "data",
            "socket": self._folder / "socket",
            "pid-file": self._folder / "pid",
            "tmpdir": self._folder,
            "init-file": self._folder / "first.sql",
            "bind-address": HOST,
            "port": self.port,
        }
        arguments = [f"--{name}={value}" for name, value in {**places, **self._settings}.items()]
        self._started(self._spawn(_command(_home(), *arguments), environment=_environment()), self._refusal)

    def stop(self) -> None:
        """Shut down in an orderly way."""
        self.end(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the server."""
        self.end(signal.SIGKILL)

    def restart(self, **settings: str) -> None:
        """Shut down in an orderly way and start again, from now on also with these settings."""
        self.stop()
        self._settings |= settings
        self.start()

    def purge_log(self) -> None:
        """Delete all files of the log but a new one."""
        with self.connect() as connection, connection.cursor() as cursor:

            def files() -> list[str]:
                cursor.execute("SHOW BINARY LOGS")
                return [name for name, _ in cursor.fetchall()]

            cursor.execute("FLUSH BINARY LOGS")
            newest = files()[-1]

            def is_purged() -> bool:
                # The server keeps a file until the engine has written its transactions.
                cursor.execute(f"PURGE BINARY LOGS TO '{newest}'")
                return files() == [newest]

            until(is_purged, lambda: f"the log still has {files()}")

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run these statements as the superuser; return the rows of the last one."""
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall()) if statements else []

    def follow(self, primary: MysqlServer) -> None:
        """Replicate from a server, from the last transaction on that this one has."""
        self.execute(
            "STOP SLAVE",
            f"CHANGE MASTER TO master_host='{HOST}', master_port={primary.port}, "
            f"master_user='{SUPERUSER}', master_use_gtid=current_pos, master_connect_retry=1",
            "START SLAVE",
        )

    def catch_up_with(self, primary: MysqlServer) -> None:
        """Wait until this server has every transaction of the one that it follows."""
        ((wanted,),) = primary.execute("SELECT @@gtid_binlog_pos")

        def has_all() -> bool:
            ((found,),) = self.execute("SELECT @@gtid_current_pos")
            return {*wanted.split(",")} <= {*found.split(",")}

        until(has_all, lambda: f"the replica lacks {wanted}: {self.execute('SHOW ALL SLAVES STATUS')}")

    def promote(self) -> None:
        """Follow no server any more."""
        self.execute("STOP SLAVE", "RESET SLAVE ALL")

    def connect(self, database: str | None = None, **more: Any) -> pymysql.Connection[Any]:
        """A new connection in autocommit, as the superuser unless ``more`` say so."""
        import pymysql

        address = {"host": HOST, "port": self.port, "user": SUPERUSER, "database": database}
        return pymysql.connect(**{**address, "autocommit": True, "charset": "utf8mb4", **more})

    def options(self, database: str, **more: str) -> dict[str, str]:
        """The options with which a query reads the database, as the superuser unless ``more`` say so."""
        connection = {"host": HOST, "port": str(self.port), "database": database, "user": SUPERUSER}
        return {"enumerator": "mysql", **connection, **more}

    @contextmanager
    def database(self) -> Iterator[str]:
        """Create an empty database and yield its name; at the end it is dropped."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        try:
            yield name
        finally:
            if self.is_running:
                with self.connect() as connection, connection.cursor() as cursor:
                    cursor.execute(f"DROP DATABASE {name}")

    @contextmanager
    def account(self, privileges: str) -> Iterator[Account]:
        """Create an account that logs in with its password, and grant it ``privileges`` on everything."""
        account = Account(name=f"user_{uuid.uuid4().hex[:12]}", password=secrets.token_urlsafe(12))
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE USER '{account.name}'@'{HOST}' IDENTIFIED BY '{account.password}'")
            cursor.execute(f"GRANT {privileges} ON *.* TO '{account.name}'@'{HOST}'")
        try:
            yield account
        finally:
            if self.is_running:
                with self.connect() as connection, connection.cursor() as cursor:
                    cursor.execute(f"DROP USER '{account.name}'@'{HOST}'")

    def _refusal(self) -> Exception | None:
        import pymysql

        try:
            self.connect(connect_timeout=10).close()
        except pymysql.err.OperationalError as error:
            return error
        return None


@contextmanager
def mysql_server(**settings: str) -> Iterator[MysqlServer]:
    """Run a server; ``settings`` are variables that it has from its start."""
    with kept_folder("flip27-mysql-", ended_by="TERM") as (folder, keeper):
        server = MysqlServer(folder=folder, keeper=keeper, settings=settings)
        server.start()
        try:
            yield server
        finally:
            if server.is_running:
                server.kill()


def program(name: str) -> tuple[list[str], dict[str, str]]:
    """The command of one of MariaDB's clients, such as ``mariadb-binlog``, and its environment."""
    return [str(_home() / "root/usr/bin" / name)], _environment()


def _home() -> Path:
    """The folder with the unpacked packages and an empty data folder; made if it is missing."""
    return unpacked("mariadb", _install)


def _install(home: Path) -> None:
    unpack(PACKAGES, into=home / "root", downloads=home)
    scripts = home / "root/usr/share/mysql"
    tables = "".join(
        (scripts / f"mysql_system_tables{part}.sql").read_text(encoding="utf-8") for part in ("", "_data")
    )
    (home / "data").mkdir()
    command = _command(home, f"--datadir={home / 'data'}", "--bootstrap", "--innodb-log-file-size=8M")
    statements = f"CREATE DATABASE mysql;\nUSE mysql;\n{tables}"
    finished(command, cwd=home, given=statements, environment=_environment(home))


def _command(home: Path, *arguments: str) -> list[str | Path]:
    root = home / "root/usr"
    paths = ["--no-defaults", f"--basedir={root}", f"--lc-messages-dir={root}/share/mysql"]
    paths.append(f"--character-sets-dir={root}/share/mysql/charsets")
    # It runs with the rights of the tests: as root only if they do.
    user = ["--user=root"] if os.getuid() == 0 else []
    return [root / "sbin/mariadbd", *paths, *user, *arguments]


def _environment(home: Path | None = None) -> dict[str, str]:
    libraries = list(((home or Path(sys.prefix) / "mariadb") / "root/usr/lib").glob("*-linux-gnu*"))
    return {"PATH": os.defpath, "LC_ALL": "C", "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries))}
