"""The command line inside the test's own process, and the disk that it finds."""

import io
import os
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest
from typer.testing import CliRunner, Result

from tracekit.cli import app, main
from tracekit.errors import UsageError


def invoke(*words: str | Path, stdin: str | None = None) -> Result:
    """Run `tracekit WORDS`; an error is in the result."""
    return CliRunner().invoke(app, [*map(str, words)], input=stdin)


def succeed(*words: str | Path) -> Result:
    """Run `tracekit WORDS`, which must end well."""
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    return result


def typed(*words: str) -> tuple[int, str]:
    """Run `tracekit WORDS` to its end as the program does; return exit code and all it prints."""
    talk, status = io.StringIO(), 0
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    argv = patch.object(sys, "argv", ["tracekit", *words])
    script = patch.object(sys.modules["__main__"], "__package__", None)  # no `python -m`
    try:
        with redirect_stdout(talk), redirect_stderr(talk), argv, script:
            main()
    except SystemExit as end:
        status = int(end.code or 0)
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
    return status, talk.getvalue()


def refused(result: Result, *words: str, error: type[Exception] = UsageError) -> None:
    """Check that a command ended with this error, and that its message has these words."""
    assert isinstance(result.exception, error), result.output
    for word in words:
        assert word in str(result.exception)


def with_free_bytes(monkeypatch: pytest.MonkeyPatch, place: Path, free_bytes: int) -> None:
    """Let the disk of a place have so many bytes free, in units of 4 KiB."""
    fields = list(os.statvfs(place))
    fields[0] = fields[1] = 4096
    fields[4] = free_bytes // 4096
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result(fields))
