"""What ``flip27 check`` finds about a PostgreSQL server: its settings, the role, tables, slot, publication.

It changes nothing on the server. Tables are checked in :mod:`.check_tables`, slot and publication in
:mod:`.check_log`.
"""

from __future__ import annotations

from collections.abc import Iterator

from flip27_source.enumerators.postgres import options as opts
from flip27_source.enumerators.postgres.check_log import log_findings
from flip27_source.enumerators.postgres.check_tables import table_findings
from flip27_source.enumerators.postgres.connection import checked, connect, place, row_of
from flip27_source.enumerators.postgres.server import (
    OLDEST_VERSION,
    check_primary,
    check_version,
    check_wal_level,
    major_version,
)
from flip27_source.enumerators.postgres.table_patterns import quoted
from flip27_source.errors import Flip27Error
from flip27_source.options import Options
from flip27_source.source_checks import Finding, failed, ok, ok_unless, skipped, warning

_VERIFYING = ("verify-ca", "verify-full")

_SERVER = """
SELECT current_setting('server_version'), pg_is_in_recovery(), current_setting('wal_level'),
       inet_client_addr() IS NULL OR inet_client_addr() <<= '127.0.0.0/8' OR inet_client_addr() = '::1'
"""
_TLS = "SELECT ssl, version, cipher FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
# On Amazon RDS and Aurora no role has the attribute; membership in this role replaces it.
_ROLE = """
SELECT rolname, rolsuper, rolreplication OR EXISTS (
    SELECT FROM pg_roles r WHERE r.rolname = 'rds_replication' AND pg_has_role(current_user, r.oid, 'MEMBER'))
FROM pg_roles WHERE rolname = current_user
"""


def findings(options: Options) -> Iterator[Finding]:
    """All findings; those that need the log are left out if the server cannot provide it."""
    try:
        connection = connect(options, purpose="check")
    except Flip27Error as error:
        yield failed("connection", error.what, error.remedy)
        return
    with connection:
        number = major_version(connection)
        server, roles, (encrypted, tls_version, cipher) = checked(
            options,
            "querying the server's settings",
            lambda: tuple(row_of(connection, sql) for sql in (_SERVER, _ROLE, _TLS)),
        )
        version, is_standby, wal_level, is_local = server
        role, is_superuser, may_replicate = roles
        yield ok("connection", f"{place(options)}, as role {role}")
        yield tls(tls_version if encrypted else None, cipher, is_local=is_local, sslmode=options["sslmode"])
        yield ok_unless("server", f"PostgreSQL {version}", lambda: check_version(number))
        yield ok_unless("primary", "the server is a primary", lambda: check_primary(is_standby=is_standby))
        yield ok_unless("wal_level", wal_level, lambda: check_wal_level(wal_level))
        yield replication(role, may_replicate=may_replicate or is_superuser)
        tables = yield from table_findings(connection, options, role)
        if is_standby or number < OLDEST_VERSION:
            yield skipped("slot", "this server has no slot that a query can read")
            return
        if options[opts.SNAPSHOT] == "only":
            yield skipped("slot", "snapshot=only reads no log")
            return
        yield from log_findings(connection, options, role, tables, is_superuser=is_superuser)


def replication(role: str, *, may_replicate: bool) -> Finding:
    """Whether the role may create and read a slot."""
    if may_replicate:
        return ok("replication", f"role {role} may create and read a replication slot")
    return failed(
        "replication",
        f"role {role} is not a superuser and lacks the attribute REPLICATION: it may not create or read a "
        "slot",
        f"ALTER ROLE {quoted(role)} REPLICATION; (Amazon RDS: GRANT rds_replication TO {quoted(role)};)",
    )


def tls(version: str | None, cipher: str | None, *, is_local: bool, sslmode: str | None) -> Finding:
    """Whether rows and password are protected in transit.

    Args:
        version: such as TLSv1.3; None without TLS.
        is_local: whether server and client are on one machine.
        sslmode: the option of that name.
    """
    if version is None:
        if is_local:
            return ok("TLS", "not in use; the server is on this machine")
        return warning(
            "TLS",
            "not in use: anyone on the network path can read all rows",
            "set sslmode=verify-full and sslrootcert; the server needs ssl = on",
        )
    said = f"{version}, {cipher}"
    if is_local or sslmode in _VERIFYING:
        return ok("TLS", said)
    return warning(
        "TLS",
        f"{said}; the certificate of the server is not checked (sslmode={sslmode or 'prefer'}), so "
        "another server could impersonate it",
        "set sslmode=verify-full and sslrootcert",
    )
