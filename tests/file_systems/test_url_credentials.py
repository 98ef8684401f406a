"""Credentials in URLs are never shown and never stored; text that only looks like one is kept."""

from __future__ import annotations

import base64
import html
import json
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape

import pytest
from fsspec import register_implementation
from fsspec.implementations.memory import MemoryFileSystem

from flip27_source.access_errors import may_pass
from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from flip27_source.enumerators.files.listing.choice import open_listers
from flip27_source.enumerators.files.options import PATHS
from flip27_source.errors import (
    Flip27Error,
    NewColumnsError,
    OptionError,
    StaleDriverError,
    StateLocationError,
    kept_text,
)
from flip27_source.file_systems.paths import (
    canonical_path,
    error_text,
    given_name,
    host_of,
    listed_name,
    listed_path,
    names_a_user,
    redacted,
)
from flip27_source.file_systems.secrets_in_texts import Hidden
from flip27_source.file_systems.url_credentials import masked
from flip27_source.options import Options
from flip27_source.savepoints.format import open_savepoint
from flip27_source.snapshots.store import open_store
from flip27_source.source import Source
from flip27_source.testing.inline_environment import inline_environment
from tests.deadline import soon
from tests.toy_sources import INITIAL

ACCOUNT = "account.dfs.core.windows.net"
FIX = "fix the cause that this text names"
SIGNED = "https://account.blob.core.windows.net/landing?sv=2024&sig=s3cr3t%3D"


USES: dict[str, Callable[[str], object]] = {
    "path": lambda url: open_listers([url], {}),
    "state": lambda url: open_store(url, {}),
    "savepoint": lambda url: open_savepoint(url, lambda location: open_store(location, {})),
}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sftp://tom:hunter2@host:22/a:b@c", "sftp://host:22/a:b@c"),
        ("sftp://tom@host/a", "sftp://host/a"),
        ("sftp://tom:hun@ter2@host/a", "sftp://host/a"),
        ("sftp://tom:hun/ter2@host/a", "sftp://host/a"),
        ("sftp://tom:hun?te#r2@host/a", "sftp://host/a"),
        ("s3://KEY:SEC/RET@bucket/a", "s3://bucket/a"),
        ("simplecache::http://tom:hunter2@host/a", "simplecache::http://host/a"),
        ("zip://a.csv::https://tom:hunter2@host/x.zip", "zip://a.csv::https://host/x.zip"),
        ("abfs://tom:hunter2@account/a", "abfs://account/a"),
        (f"abfs://container@{ACCOUNT}/a@b", f"abfs://container@{ACCOUNT}/a@b"),
        ("az://container@account", "az://container@account"),
        (f"abfss://container@{ACCOUNT}/a b", f"abfss://container@{ACCOUNT}/a b"),
        ("wasbs://container@account.blob.core.windows.net/a", "wasbs://container@account.blob.core.windows.net/a"),
        ("wasbs://tom:hunter2@account/a", "wasbs://account/a"),
        ("ftp://tom:hunter2@host/a", "ftp://host/a"),
        ("ftp://tom:hunter2@host", "ftp://host"),
        ("/landing/ftp://tom:hunter2@host", "/landing/ftp://tom:hunter2@host"),
        ("oci://bucket@space/a", "oci://bucket@space/a"),
        ("s3://bucket/a@b:c", "s3://bucket/a@b:c"),
        ("http://[::1]:80/a@b", "http://[::1]:80/a@b"),
        ("https://host:443/a@b", "https://host:443/a@b"),
        ("https://h/c?sv=1&sig=a%2Fb%3D&se=3", "https://h/c?sv=1&sig=***&se=3"),
        ("https://h/a?X-Goog-Signature=aa&X-Amz-Credential=q", "https://h/a?X-Goog-Signature=***&X-Amz-Credential=***"),
        ("https://h/a?x-goog-credential=a&X-Amz-Date=1", "https://h/a?x-goog-credential=***&X-Amz-Date=1"),
        ("https://h/a?accessToken=1&api-key=2#id_token=3", "https://h/a?accessToken=***&api-key=***#id_token=***"),
        ("https://h/a?page_token=1&next_key=2&sort=at", "https://h/a?page_token=1&next_key=2&sort=at"),
        ("sc://host:15002/;token=abc;user_id=me", "sc://host:15002/;token=***"),
        ("/data/?sig=a/x", "/data/?sig=a/x"),
    ],
)  # fmt: skip
def test_a_url_is_shown_without_its_credentials(url: str, shown: str) -> None:
    assert redacted(url) == shown


def test_a_text_is_shown_without_the_credentials_of_the_urls_in_it() -> None:
    said = "GET 'https://h/a?sig=abc' failed, url=URL('https://tom:pw@h/a?token=x'), see https://h/b."
    assert (
        masked(said) == "GET 'https://h/a?sig=***' failed, url=URL('https://h/a?token=***'), see https://h/b."
    )


def test_neither_an_error_nor_its_stored_text_shows_the_credentials_of_a_url() -> None:
    told = OptionError("sftp://tom:pw@host/a is none", remedy="try https://h/a?sig=abc or /data/?sig=abc")
    assert str(told) == "sftp://host/a is none\n  What to do: try https://h/a?sig=*** or /data/?sig=abc"
    assert (told.what, told.remedy) == ("sftp://host/a is none", "try https://h/a?sig=*** or /data/?sig=abc")
    assert kept_text(OSError("GET https://h/a?sig=abc")) == "OSError: GET https://h/a?sig=***"


def test_a_list_of_paths_that_cannot_be_read_is_refused_without_its_credentials() -> None:
    with pytest.raises(OptionError, match="option paths has the value") as caught:
        Options.parse({"paths": f'["{SIGNED}", null]'}, [PATHS])
    assert "s3cr3t" not in str(caught.value)


def test_an_error_never_contains_the_password_of_the_url() -> None:
    error = OSError("cannot log in as tom with hun/ter2 at sftp://tom:hun/ter2@host/a")
    assert error_text(error, "sftp://tom:hun/ter2@host/a") == (
        "OSError: cannot log in as tom with *** at sftp://host/a"
    )
    error = OSError("no container named landing")
    assert error_text(error, f"abfs://landing@{ACCOUNT}/a") == "OSError: no container named landing"


def test_a_secret_is_hidden_in_every_spelling_of_texts() -> None:
    hidden = Hidden({"storage.token": "ya29/é+b="})
    for spelled in ("ya29/é+b=", "ya29%2F%C3%A9%2Bb%3D", "ya29/%C3%A9%2Bb%3D", r"ya29\/é+b="):
        assert hidden.in_text(f"/tokeninfo?access_token={spelled}: 400") == "/tokeninfo?access_token=***: 400"


@pytest.mark.parametrize(
    "secret", ['pa"ss', "it's\"x", "pässwörd", "a&b<c>d", "x/y+z==w", "one\ntwo\n", "a\\b", "\U0001f511key"]
)
def test_a_secret_with_any_letters_is_hidden_in_json_quotations_urls_and_markup(secret: str) -> None:
    text, in_url = json.dumps({"p": secret}), quote(secret, safe="")
    spelled = {
        *(text, json.dumps({"p": secret}, ensure_ascii=False), json.dumps(text), repr(text)),
        *(repr({"p": secret}), repr(f"{secret}'"), repr(f"{secret}'\""), repr(secret.encode())),
        *(in_url, re.sub("%..", lambda found: found[0].lower(), in_url)),
        *(
            html.escape(secret),
            html.escape(secret, quote=False),
            escape(secret, {"'": "&apos;", '"': "&quot;"}),
        ),
        *(quote(text), quote(in_url), html.escape(text), json.dumps(html.escape(secret)), ascii(secret)),
        secret.strip(),
    }
    hidden = Hidden({"password": secret})
    assert {said for said in spelled if "***" not in hidden.in_text(said)} == set()


@pytest.mark.parametrize(
    "given",
    [
        {"storage.client_kwargs": '{"cookies": {"session": "s3cr3t"}}'},
        {"storage.config": {"key_content": "s3cr3t"}},
        {"ssl.key.pem": "s3cr3t"},
        {"pass_phrase": "s3cr3t"},
        {"proxy_pass": "s3cr3t"},
    ],
)
def test_values_of_less_usual_names_are_secrets_too(given: dict[str, object]) -> None:
    assert Hidden(given).in_text("refused: s3cr3t") == "refused: ***"


def test_user_and_password_of_basic_authentication_are_hidden_in_errors() -> None:
    sent = base64.b64encode("ann:hun/ter2é".encode()).decode()
    header = f"{{'Authorization': 'Basic {sent}'}}"
    assert masked(header) == "{'Authorization': 'Basic ***'}"
    assert OptionError(f"refused: authorization: basic {sent}").what == "refused: authorization: basic ***"
    assert Hidden({}).in_text(f'{{"h": "Basic {sent}"}}') == '{"h": "Basic ***"}'
    for harmless in ("Basic authentication failed", "Basic dGhlIHNreQ==", "no basic\nknowledge: x"):
        assert masked(harmless) == harmless


@pytest.mark.parametrize("value", ["", "a", "1", True, None, {}, [], "true", "null"])
def test_what_is_too_short_or_no_text_hides_nothing(value: object) -> None:
    said = "a1 True true {} [] None null"
    assert Hidden({"gss_auth": value}).in_text(said) == said


class TellsItsToken(MemoryFileSystem):
    """As gcsfs, whose error of a request that checks the token has the token in it."""

    protocol = "tells"
    cachable = False

    def __init__(self, token: str = "", fails: str = "", **_: Any) -> None:
        super().__init__()
        self.storage_options = {"token": token}
        self.fails = fails
        self.ask("open")

    def ask(self, what: str) -> None:
        if what == self.fails:
            raise ConnectionError(f"no answer to /tokeninfo?access_token={self.storage_options['token']}")

    def isfile(self, path: str) -> bool:
        self.ask("list")
        return True

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self.ask("write")


@pytest.mark.parametrize(
    ("fails", "act"),
    [
        ("open", lambda options: open_listers(["tells://b/a"], options)),
        ("list", lambda options: open_listers(["tells://b/a"], options).check_root()),
        ("write", lambda options: open_store("tells://b/a", options).create("a", b"1")),
    ],
)
def test_an_error_of_a_file_system_never_contains_a_secret_of_its_options(
    fails: str, act: Callable[[dict[str, str]], object]
) -> None:
    register_implementation("tells", TellsItsToken, clobber=True)
    with pytest.raises(Flip27Error, match=r"access_token=\*\*\*") as caught:
        act({"token": "ya29.s3cr3t", "fails": fails})
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (StaleDriverError("in s3cr3t", remedy="see s3cr3t"), StaleDriverError("in ***", remedy="see ***")),
        (NewColumnsError("s3cr3t", columns="a int"), NewColumnsError("***", columns="a int")),
        (
            TimeoutError("s3cr3t"),
            Flip27Error("TimeoutError: ***", remedy="fix the cause that this text names"),
        ),
        (OSError("nothing to hide"), OSError("nothing to hide")),
    ],
)
def test_an_error_of_a_call_has_no_secret_and_keeps_what_is_known_of_it(
    error: Exception, shown: Exception
) -> None:
    def fail() -> None:
        raise error

    guarded = Hidden({"token": "s3cr3t"}).in_errors(fail)
    with pytest.raises(type(shown)) as caught:
        guarded()
    assert (str(caught.value), vars(caught.value)) == (str(shown), vars(shown))
    assert may_pass(caught.value) is may_pass(error)
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))  # as Spark shows it


class TellsLater(MemoryFileSystem):
    """Files of the memory, whose listing or deletion fails, and tells the token."""

    protocol = "tells-later"
    fails = ""

    def __init__(self, token: str) -> None:
        super().__init__()
        self.token = token

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace(f"{cls.protocol}://", "memory://")))

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        self.ask("list")
        return super().ls(path, detail=detail)

    def rm_file(self, path: str) -> None:
        self.ask("delete")
        super().rm_file(path)

    def ask(self, what: str) -> None:
        if what == self.fails:
            raise ConnectionError(f"no answer to /tokeninfo?access_token={self.token}")


@pytest.mark.parametrize("fails", ["list", "delete"])
def test_what_a_query_logs_and_stores_of_an_error_of_a_file_system_has_no_secret_of_its_options(
    fails: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    register_implementation("tells-later", TellsLater, clobber=True)
    files, landing = TellsLater("ya29.s3cr3t"), f"tells-later://{tmp_path.name}-{fails}"
    files.pipe_file(f"{landing}/a.txt", b"a\n")
    options = {"path": landing, "stateLocation": str(tmp_path), "storage.token": files.token}
    source = Source.resolve({**options, "reader": "text", "cleanSource": "delete", "discoveryRetries": "1"})
    inline = inline_environment(now_ms=lambda: 0, steady_ms=lambda: 0)
    environment = inline if fails == "delete" else None

    def planned(at: dict[str, Any]) -> dict[str, Any]:
        files.pipe_file(f"{landing}/{at['checkpoint']}.txt", b"a\n")
        holder = CoordinatorHolder(source, Boundedness.BOUNDED, environment=environment)
        try:
            return holder.latest_offset(at, None)
        finally:
            holder.close()

    at = planned(INITIAL)
    monkeypatch.setattr(TellsLater, "fails", fails)
    if fails == "list":
        with pytest.raises(Flip27Error, match=r"access_token=\*\*\*") as caught:
            planned(at)
        assert "s3cr3t" not in str(caught.value)
    else:
        for _ in range(3):  # the action is recorded, performed, and recorded with its error
            at = planned(at)
    stored = [path.read_bytes() for path in tmp_path.rglob("*.json")]
    assert any(b"access_token=***" in data for data in stored)
    assert not any(b"s3cr3t" in data for data in stored)
    assert "s3cr3t" not in caplog.text


@pytest.mark.parametrize("length", [10_000, 100_000])
@pytest.mark.parametrize("text", ["a://", "x://u:", "x://u:@", "?a", "?sig=", "a", "@", "::", "a://b:x@::"])
def test_a_hostile_text_is_masked_in_one_pass(text: str, length: int) -> None:
    """With time that is quadratic in the length, it would take minutes."""
    with soon():
        assert len(masked(text * length)) <= 4 * len(text) * length


@pytest.mark.parametrize("url", [f"abfs://landing@{ACCOUNT}/a", "oci://bucket@space/a", "s3://bucket/a@b"])
def test_a_container_before_the_at_sign_is_not_a_user(url: str) -> None:
    assert not names_a_user(url)


@pytest.mark.parametrize("url", ["abfs://tom:pw@account/a", "s3://KEY:SECRET@bucket/a", "sftp://tom@host/a"])
def test_a_user_before_the_at_sign_is_recognized(url: str) -> None:
    assert names_a_user(url)


@pytest.mark.parametrize("protocol", ["abfs", "abfss", "az"])
def test_paths_in_azure_keep_container_and_account(protocol: str) -> None:
    """fsspec's name of a file, such as ``landing/orders/a.csv``, does not contain the account."""
    url = f"{protocol}://landing@{ACCOUNT}/orders/"
    assert canonical_path(url) == f"abfs://landing@{ACCOUNT}/orders"
    assert canonical_path(f"{protocol}://landing@{ACCOUNT}/") == f"abfs://landing@{ACCOUNT}"
    assert host_of(url) == host_of(f"abfs://archive@{ACCOUNT}/x") == f"abfs://{ACCOUNT}"
    assert given_name(url) == "landing/orders"
    for name in ("landing/orders/a.csv", "landing/landing/a#b@c.csv", "landing/a"):
        path = listed_path(None, host_of(url), name)
        assert path == f"abfs://landing@{ACCOUNT}/{name.removeprefix('landing/')}"
        assert listed_name(path) == name


def test_a_url_of_wasb_names_the_files_of_abfs() -> None:
    url = "wasbs://landing@account.blob.core.windows.net/orders/"
    assert canonical_path(url) == f"abfs://landing@{ACCOUNT}/orders"
    assert host_of(url) == f"abfs://{ACCOUNT}"
    assert given_name(url) == "landing/orders"


@pytest.mark.parametrize("name", ["a#", "a?", "a?b#c", "a\tb", "a?versionid=1"])
def test_a_name_that_adlfs_would_misread_is_refused(name: str) -> None:
    for url in (f"abfs://landing@{ACCOUNT}/{name}", f"az://landing/{name}"):
        with pytest.raises(OSError, match=r"as that of another blob|as the version of another"):
            listed_name(url)
    assert listed_name(f"az://landing/a#b?c {name[:1]}%20+") == f"landing/a#b?c {name[:1]}%20+"


def test_printed_text_keeps_the_container_and_hides_users_and_keys() -> None:
    connection = "AccountName=account;AccountKey=s3cr3tkey==;SharedAccessSignature=sig-s3cr3t"
    hidden = Hidden({"storage.connection_string": connection})
    assert hidden.in_text(f"abfs://landing@{ACCOUNT}/a") == f"abfs://landing@{ACCOUNT}/a"
    assert hidden.in_text("sftp://tom:hunter2@host/a") == "sftp://host/a"
    assert hidden.in_text("account refused s3cr3tkey== and sig-s3cr3t") == "account refused *** and ***"


@pytest.mark.parametrize(
    "url",
    [
        SIGNED,
        f"abfs://landing@{ACCOUNT}/a?sv=2024&sig=s3cr3t%3D",
        "https://bucket.s3.amazonaws.com/a?X-Amz-Signature=s3cr3t",
        "https://host/a?token=s3cr3t",
        "s3://KEY:s3cr3t@bucket/a",
    ],
)
@pytest.mark.parametrize("use", USES)
def test_a_url_with_credentials_is_refused_as_a_path_a_state_location_and_a_savepoint(
    use: str, url: str
) -> None:
    with pytest.raises((OptionError, StateLocationError)) as caught:
        USES[use](url)
    assert "s3cr3t" not in str(caught.value)
    assert re.search("looks like a credential|user name or password", str(caught.value))
    assert "storage." in str(caught.value)


@pytest.mark.parametrize("use", ["path", "state"])
@pytest.mark.parametrize("url", [f"simplecache::{SIGNED}", "zip://a.csv::https://host/a.zip?token=s3cr3t"])
def test_a_url_that_chains_file_systems_is_refused_without_its_credentials(use: str, url: str) -> None:
    with pytest.raises((OptionError, StateLocationError)) as caught:
        USES[use](url)
    assert "s3cr3t" not in str(caught.value)
