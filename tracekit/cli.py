"""The command line: registers the commands, catches errors and chooses the exit code."""

from __future__ import annotations

import os
import sys

import typer

from tracekit import __version__
from tracekit.commands import COMMANDS
from tracekit.errors import TracekitError

app = typer.Typer(
    name="tracekit",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich alone takes two thirds of the time of `tracekit --help`
    help="Find out from a real I/O trace where a small fast memory belongs; prove it by replay.",
)
for _command in COMMANDS:
    app.command()(_command)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"tracekit {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _show: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Options of the program itself."""


def main() -> None:
    """Run the program; an expected error becomes one line on stderr and its exit code."""
    try:
        app()
    except TracekitError as error:
        typer.echo(f"tracekit: {error}", err=True)
        if error.hint:
            typer.echo(f"  {error.hint}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output went away, as `head` does: that is no failure of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
