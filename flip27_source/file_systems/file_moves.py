"""Renames, hard links, removal of folders: fsspec has no call for them that takes names as they are."""

from __future__ import annotations

from typing import Any

from .paths import is_ssh


def can_rename(file_system: Any) -> bool:
    """Whether a file system defines its own ``mv``, which renames.

    Otherwise fsspec reads a name that contains ``*``, ``?`` or ``[`` as a pattern, and moves every file that
    matches.
    """
    from fsspec.spec import AbstractFileSystem

    return "mv" in vars(file_system) or type(file_system).mv is not AbstractFileSystem.mv


def move_file(file_system: Any, source: str, target: str) -> None:
    """Rename a file: by the file system's rename if it has one, else by a copy."""
    if can_rename(file_system):
        file_system.mv(source, target)
    else:
        file_system.cp_file(source, target)
        file_system.rm_file(source)


def link_file(file_system: Any, source: str, target: str) -> None:
    """Create a hard link, which fails if ``target`` exists; fsspec has no call for it.

    Raises:
        NotImplementedError: the file system or its server has no hard links.
        Exception: any error of the file system.
    """
    if not is_ssh(file_system):
        raise NotImplementedError(f"{type(file_system).__name__} has no hard links")
    from asyncssh.sftp import SFTPOpUnsupported
    from fsspec.asyn import sync

    async def link() -> None:
        async with file_system._pool.get() as channel:
            await channel.link(source, target)

    try:
        sync(file_system.loop, link)
    except SFTPOpUnsupported as error:
        raise NotImplementedError("the SFTP server has no hard links") from error


def remove_empty_folders(file_system: Any, folder: str) -> None:
    """Remove a folder and its subfolders if they contain no files. Names are never read as patterns.

    Raises:
        Exception: any error of the file system, unless the folder is already gone.
    """
    try:
        entries = file_system.ls(folder, detail=True)
    except FileNotFoundError:
        return
    for entry in entries:
        if entry["type"] == "directory" and entry["name"].rstrip("/") != folder.rstrip("/"):
            remove_empty_folders(file_system, entry["name"].rstrip("/"))
    file_system.invalidate_cache(folder)
    if not file_system.ls(folder, detail=False):
        file_system.rmdir(folder)
