"""Errors that a user can act on; `tracekit.cli` alone exits."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from tracekit.escapes import escape, joined

DAMAGED = "the table may be damaged: parse the capture again"
HINTS = {
    errno.EFBIG: "raise the limit of a file's size (ulimit -f), or work on another file system",
    errno.ENOSPC: "free some space, or work on another file system",
    errno.EDQUOT: "free some space, or work on another file system",
    errno.EROFS: "work on a copy of the folder elsewhere",
    errno.EACCES: "check the permissions, or work on a copy of the folder",
    errno.EPERM: "check the permissions, or work on a copy of the folder",
    errno.ENOENT: "check the path: a part of it does not exist",
    errno.ENOTDIR: "check the path: a part of it is a file, not a folder",
    errno.EMFILE: "raise the limit of open files: ulimit -n",
    errno.ENAMETOOLONG: "choose a shorter name",
}
"""What to do about what the system refused."""


class TracekitError(Exception):
    """A failure that the user can act on: what is wrong, where, and what to do.

    `exit_code` follows the documented table: 1 failed, 2 usage, 3 partial result, 4
    not within a budget, 5 unclear. What it quotes is escaped: the message is one line, and one each
    of what more is given.
    """

    exit_code = 1

    def __init__(self, message: str, *more: str, hint: str = "") -> None:
        super().__init__(joined([message, *more]))
        self.hint = escape(hint)

    def leave_out(self, options: Collection[str]) -> None:
        """Take advice to use one of these options, after a semicolon, out of the message."""
        what, *advice = str(self).split("; ")
        kept = []
        for clause in advice:
            other, joint, _ = clause.partition(" or --")
            if not any(option in clause for option in options):
                kept.append(clause)
            elif joint:
                kept.append(other)
        self.args = ("; ".join([what, *kept]),)


class InputError(TracekitError):
    """The input is not what it should be; the message names the file, the place and the value."""


class MissingError(InputError):
    """A path that the user gave does not exist: the command line is wrong, not an input."""

    exit_code = 2

    def __init__(self, path: Path, *, hint: str = "check the path") -> None:
        super().__init__(f"{path}: there is no such file or folder", hint=hint)


class UnorderedError(InputError):
    """Requests are further from their order than can be mended while they are read."""


class UsageError(TracekitError):
    """The options contradict each other or name something that does not exist."""

    exit_code = 2


class PartialError(TracekitError):
    """Some of the work was done and kept; the message says what is missing.

    Where a command was run, `exit_code` is its own.
    """

    exit_code = 3

    def __init__(self, message: str, *more: str, hint: str = "", exit_code: int = 3) -> None:
        super().__init__(message, *more, hint=hint)
        self.exit_code = exit_code


class BudgetError(TracekitError):
    """The work was done, but not within the limits that were asked for."""

    exit_code = 4


class UnclearError(TracekitError):
    """The work was done; what was measured cannot tell whether it was within the limits."""

    exit_code = 5


class StoppedError(TracekitError):
    """A signal came when it could not end the work at once; the message says what was kept.

    `exit_code` is that of a program that the signal ended.
    """

    def __init__(self, message: str, *, exit_code: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code


@contextmanager
def named_for(path: Path) -> Iterator[None]:
    """Let what the system refuses in the block name `path`, not a temporary name beside it.

    So does what names nothing: a full disk does not say which file was being written.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        elif isinstance(error.filename, str | os.PathLike):
            hidden = rf"\.({re.escape(path.name)})\.tracekit-\d+-[0-9a-f]+"
            error.filename = re.sub(hidden, r"\1", os.fspath(error.filename))
        raise


def foreign_error(error: Exception) -> TracekitError | None:
    """Return what the system, Arrow or the database refused as an error of ours, else None.

    Anything else is a mistake in this program, whose place should be seen.
    """
    if isinstance(error, MemoryError):
        return TracekitError("there is not enough memory", hint="close other programs")
    if isinstance(error, OSError) and error.errno is not None:
        reason = os.strerror(error.errno)
        # An open file that was given by its number has that in the place of a name.
        is_named = isinstance(error.filename, str | bytes | os.PathLike)
        place = f"{os.fsdecode(error.filename)}: " if is_named else ""
        return TracekitError(f"{place}{reason}", hint=HINTS.get(error.errno, ""))
    library = type(error).__module__.partition(".")[0]
    # Arrow says of damaged data that it cannot be read with an OSError without a number.
    if isinstance(error, OSError) or library in ("pyarrow", "duckdb", "_duckdb"):
        message = f"a table cannot be read or written: {first_line(error)}"
        return InputError(message, hint=DAMAGED)
    return None


def first_line(error: Exception) -> str:
    """Return an error's message without the listings that follow it."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def span(least: int, most: int) -> str:
    """Return a count that is known or lies between two, such as `1,200` or `1 to 3`."""
    return f"{most:,}" if least == most else f"{least:,} to {most:,}"
