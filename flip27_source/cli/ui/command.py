"""``flip27 ui``: a local web page of sources, from their state alone. Read-only unless edits are allowed."""

from __future__ import annotations

import datetime as dt
import os
import re
import threading
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from flip27_source.errors import OptionError
from flip27_source.file_systems.secrets_in_texts import Hidden
from flip27_source.optional_packages import needed
from flip27_source.options import integer

from ..commands import DONE, REFUSED, FileSystem, command, option, seconds, source_options
from ..main import LEFT_ALONE
from ..rendering import Answer, Hide, counted
from ..state.rows import places_of
from ..watch.look import Looking

group = typer.Typer()
_SHORTEST_TOKEN = 16
_LONGEST_INTERVAL_S = 86_400.0
"""Timers of browsers take at most 24.8 days, and end at once if it is more."""


@command(
    group,
    example="flip27 ui --state /ckpt/orders",
    answers="an object, and nothing is served: sources (what `watch --json` prints), unread (location, what, "
    "remedy), export (the file, or null).",
)
def ui(
    state: Annotated[
        list[str] | None,
        option("--state LOCATION", "A state location, or what else `state show` takes. Repeatable."),
    ] = None,
    checkpoint: Annotated[
        list[str] | None,
        option(
            "--checkpoint-location",
            "A query's checkpointLocation, which shows what is complete; its state is there or at a --state. "
            "Repeatable.",
        ),
    ] = None,
    port: Annotated[int, option("--port N", "The port; 0 for any free one.", integer(minimum=0))] = 4080,
    host: Annotated[str, option("--host", "The address; needs --token-env unless it is loopback.")] = (
        "127.0.0.1"
    ),
    token_env: Annotated[
        str | None,
        option("--token-env NAME", "The environment variable with the token that the page asks for."),
    ] = None,
    interval: Annotated[
        float,
        option("--interval SECONDS", "Pause between two looks of an open page, from 1 s to 1 day.", seconds),
    ] = 2.0,
    allow_edits: Annotated[
        bool,
        option("--allow-edits", "Also edit sources and take savepoints. Whoever sees the page may do so."),
    ] = False,
    export: Annotated[
        str | None, option("--export FILE", "Write one HTML file, without scripts, and serve nothing.")
    ] = None,
    *,
    looking: Looking,
    files: FileSystem,
) -> Answer:
    """Show on a web page whether sources run, what failed, the backlog, batches, splits and checkpoints."""
    places = places_of(checkpoint or (), state or (), files)
    token = _token(host, token_env)
    given = looking.options(files.storage)
    hidden = Hidden({"token": token, **source_options(None, files.storage), **(given or {})})
    where = "in this environment"
    with needed("starlette", by="flip27 ui", extra="ui", where=where, error_type=OptionError):
        import jinja2  # noqa: F401
        import uvicorn  # noqa: F401

        from .pages import Pages
        from .server import application, bound, server_of
        from .sources import ANSWER_S, Sources
    sources = Sources(places)
    pages = Pages(
        sources,
        hidden.in_text,
        None if export else min(max(1.0, interval), _LONGEST_INTERVAL_S),
        looks_with=given,
    )

    def show(console: Console, _hide: Hide) -> None:
        app = application(pages, token, _now, allow_edits=allow_edits)
        with bound(host, port) as listening:
            name = f"[{host}]" if ":" in host else host
            console.print(f"http://{name}:{listening.getsockname()[1]}/  (Ctrl-C ends it)", highlight=False)
            if allow_edits and token is None:
                console.print(
                    "Everyone who can open it on this machine may edit; --token-env asks for a token."
                )
            with suppress(KeyboardInterrupt):
                server_of(app).run(sockets=[listening])
        if not allow_edits:  # an edit that is under way is finished; a page may wait for a silent store
            for thread in threading.enumerate():
                if thread is not threading.current_thread():
                    thread.name = LEFT_ALONE

    if given is not None:
        sources.look_into(given, _now(), limit_s=0.0 if export is None else None)
    sources.look(_now(), limit_s=None if export else ANSWER_S)
    unread = [
        {"location": item.location, "what": item.error.what, "remedy": item.error.remedy}
        for item in sources.unread
    ]
    if export is not None:
        _write(export, pages.report())
    return Answer(
        data={"sources": [source.frame for source in sources.found], "unread": unread, "export": export},
        shown=[show] if export is None else [f"{export} shows {counted(len(sources.found), 'source')}."],
        notes=[str(item.error) for item in sources.unread] if export else [],
        exit_code=REFUSED if export and unread else DONE,
    )


def _write(path: str, text: str) -> None:
    """Write the report; raises OptionError if it cannot be written."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:  # the latter for NUL
        raise OptionError(
            f"{path} cannot be written: {error}", remedy="give --export a file in a folder that exists"
        ) from None


def _token(host: str, name: str | None) -> str | None:
    """The token; raises OptionError if one is needed and missing, or too easy to guess."""
    if name is None and host not in ("127.0.0.1", "::1", "localhost"):
        raise OptionError(
            f"everyone who can reach {host} would see the page",
            remedy="name the variable of a token with --token-env, or leave out --host and use an "
            "SSH tunnel: ssh -L 4080:localhost:4080 HOST",
        )
    token = None if name is None else os.environ.get(name, "")
    # A header cannot contain others as they are.
    if token is not None and re.fullmatch(rf"[!-~]{{{_SHORTEST_TOKEN},}}", token) is None:
        raise OptionError(
            f"the environment variable {name} has no token of at least {_SHORTEST_TOKEN} characters of ASCII "
            "without spaces",
            remedy=f"export {name}=$(python -c 'import secrets; print(secrets.token_urlsafe())')",
        )
    return token


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
