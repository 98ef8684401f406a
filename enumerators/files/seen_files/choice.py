"""Chooses the strategy for seen files by the options, and refuses options that conflict with it."""

from __future__ import annotations

from collections.abc import Sequence

from flip27_source.enumerators.files import options as opts
from flip27_source.enumerators.files.globs import split_glob
from flip27_source.enumerators.files.position import FilesPosition
from flip27_source.enumerators.files.seen_files.by_cursor import ModifiedCursor, NameCursor
from flip27_source.enumerators.files.seen_files.by_hash import ExactFiles, OverwrittenFiles
from flip27_source.enumerators.files.seen_files.strategy import SeenStrategy
from flip27_source.errors import OptionError
from flip27_source.file_systems.moved_paths import PathRewrite, is_at_or_below
from flip27_source.file_systems.paths import canonical_path, local_path, path_text
from flip27_source.options import Options


def strategy_named(name: str, options: Options) -> SeenStrategy:
    if name == NameCursor.name:
        return NameCursor(options[opts.BACKFILL_INTERVAL])
    if name == ModifiedCursor.name:
        return ModifiedCursor(options[opts.ALLOWED_LATENESS])
    return ExactFiles()


def chosen_strategy(options: Options, paths: Sequence[str]) -> SeenStrategy:
    """The strategy that ``seenFiles`` and ``allowOverwrites`` choose."""
    name = options[opts.SEEN_FILES]
    if options[opts.ALLOW_OVERWRITES] and options[opts.FILE_NAME_ONLY]:
        raise OptionError(
            "options allowOverwrites and fileNameOnly are both true: files with the same name would count "
            "as new versions of each other in every round",
            remedy="remove one of the two options",
        )
    if name == ExactFiles.name:
        return OverwrittenFiles() if options[opts.ALLOW_OVERWRITES] else ExactFiles()
    for option in (opts.ALLOW_OVERWRITES, opts.FILE_NAME_ONLY):
        if options[option]:
            raise OptionError(
                f"option {option.name} is true, but seenFiles is {name}, which does not record single files",
                remedy="set seenFiles=exact, or remove the other option",
            )
    if name == NameCursor.name and len(paths) > 1:
        raise OptionError(
            f"option seenFiles is nameCursor, but there are {len(paths)} paths, and their names do not grow "
            "in one order",
            remedy="set one path (which may be a glob), or set seenFiles=exact",
        )
    return strategy_named(name, options)


def listed_by(options: Options) -> dict[str, tuple[str, ...]]:
    """The options that choose the files of a listing."""
    return {
        "path": tuple(sorted({path_text(canonical_path(path)) for path in opts.paths_of(options)})),
        opts.RECURSIVE_FILE_LOOKUP.name: (str(options[opts.RECURSIVE_FILE_LOOKUP]).lower(),),
        opts.PATH_GLOB_FILTER.name: (path_text(options[opts.PATH_GLOB_FILTER] or "*"),),
    }


def check_listed(position: FilesPosition, options: Options) -> None:
    """Refuse options (OptionError) that choose other files under a cursor: older ones would count as read."""
    now = listed_by(options)
    for name, before in (position.listed or {}).items():
        if before != now[name]:
            raise OptionError(
                f"option {name} was {', '.join(before)} and is now {', '.join(now[name])}, but seenFiles was "
                f"{position.strategy}: older files of the new value would count as read",
                remedy=f"set {name} to its former value; it can change after one batch with seenFiles=exact",
            )


def check_move(position: FilesPosition, rewrite: PathRewrite, paths: Sequence[str]) -> None:
    """Refuse a move of files after which a cursor would skip unseen files or recognise no file.

    Raises:
        OptionError: the move is refused; the remedy says what to do before the files are moved.
    """
    by_time = position.strategy == ModifiedCursor.name
    if by_time and any(local_path(rule.new) is None for rule in rewrite.rules):
        raise OptionError(
            "option pathRewrite moves files to an object store, where copies get new modification times, "
            "but seenFiles was modifiedCursor, which recognizes files by these times",
            remedy="run one batch of the query with seenFiles=exact before you create the savepoint",
        )
    after = position.after
    if position.strategy != NameCursor.name or after is None:
        return
    root = canonical_path(split_glob(paths[0])[0])
    covers = any(is_at_or_below(root, rule.new) for rule in rewrite.rules)
    is_partial = any(rule.new != root and is_at_or_below(rule.new, root) for rule in rewrite.rules)
    if is_partial or (rewrite.now(after) != after and not covers):
        raise OptionError(
            f"option pathRewrite moves only some files of the path {root}, but seenFiles was nameCursor, "
            "which depends on the order of all names",
            remedy="rewrite the whole path; or run one batch of the query with seenFiles=exact before "
            "you create the savepoint",
        )
