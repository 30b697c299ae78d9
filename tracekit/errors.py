"""Errors that a user can act on; `tracekit.cli` alone turns them into an exit code."""

from __future__ import annotations


class TracekitError(Exception):
    """A failure that the user can act on: what is wrong, where, and what to do.

    `exit_code` follows the documented table: 1 failed, 2 usage, 3 partial result.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class InputError(TracekitError):
    """The input is not what it should be; the message names the file, the place and the value."""


class UsageError(TracekitError):
    """The options contradict each other or name something that does not exist."""

    exit_code = 2


class PartialError(TracekitError):
    """Some of the work was done and kept; the message says what is missing."""

    exit_code = 3
