"""The command line: registers the commands, catches errors and chooses the exit code."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar, NoReturn, TextIO, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from tracekit.commands import COMMANDS, GROUPS, RUN_PROGRAMS, SECTIONS, function_name, load
from tracekit.commands.examples import HEADINGS, epilog
from tracekit.errors import TracekitError, foreign_error
from tracekit.escapes import EscapedStream, escape
from tracekit.version import __version__

ADVISED_BY_PLAYER = frozenset(("--expand", "--out-of-range", "--overwrite-signature"))
"""Options in messages of the native program, which not every command that runs it has."""


class _Group(TyperGroup):
    """A group that knows its commands by name and imports one when it is used."""

    summaries: ClassVar[Mapping[str, str]] = COMMANDS
    folder: ClassVar[str] = ""
    sections: ClassVar[Mapping[str, Mapping[str, str]] | None] = None

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's signature
        """Return the names in the order of the help."""
        return list(self.summaries)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - typer's signature
        """Return the command, None for a name that is none."""
        if cmd_name not in self.summaries:
            return None
        if cmd_name not in self.commands:
            command = _command(cmd_name, self.folder)
            command.short_help = self.summaries[cmd_name]
            self.commands[cmd_name] = command
        return self.commands[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - typer's signature
        """Write a line for each command, which need not be imported for that."""
        width = max(map(len, self.summaries))
        for title, commands in (self.sections or {"Commands": self.summaries}).items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", text) for name, text in commands.items()])


class _Headed(TyperCommand):
    """A command whose options stand below headings."""

    headings: ClassVar[Mapping[str, str]] = {}

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what its error advises are options that it has."""
        try:
            return super().invoke(ctx)
        except TracekitError as error:
            own = {name for parameter in self.params for name in parameter.opts}
            error.leave_out(ADVISED_BY_PLAYER - own)
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then options heading by heading, then those that have none."""
        placed = {name: title for title, names in self.headings.items() for name in names.split()}
        groups: dict[str, list[tuple[str, str]]] = {
            title: [] for title in ("Arguments", *self.headings, "Options")
        }
        for param in self.get_params(ctx):
            if record := param.get_help_record(ctx):
                is_argument = param.param_type_name == "argument"
                title = "Arguments" if is_argument else placed.get(str(param.name), "Options")
                groups[title].append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class _Program(_Group):
    """The commands; ends quietly when nobody reads its output."""

    sections = SECTIONS

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command; numpy, loaded behind this, gets no threads that nothing here uses.

        They wait for work in a loop for a moment: a tenth of a second of a short command.
        """
        if args and args[0] in self.summaries and args[0] not in RUN_PROGRAMS:
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; typer itself would take a reader who went away for a failure."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except TyperException as error:
            # It quotes words of the command line, such as names that a pattern of files gave; the
            # help that stands in for a missing command is lines of our own.
            if not error.message.startswith("Usage: "):
                error.message = escape(error.message)
            raise
        except BrokenPipeError:
            # The reader of our output has what it wants, as `head` does: that is no failure.
            _give_up_output()
            raise typer.Exit(0) from None
        return result


app = typer.Typer(
    name="tracekit",
    cls=_Program,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich alone takes two thirds of the time of `tracekit --help`
    help="Find out from a real I/O trace where a small fast memory belongs; prove it by replay.",
    epilog=epilog(""),
)


def _command(name: str, folder: str) -> Any:
    """Make a command, or a group with its sub-commands, of its module."""
    module = load(name, folder)
    function = getattr(module, function_name(name))
    own = typer.Typer(add_completion=False, rich_markup_mode=None)
    if not folder and name in GROUPS:
        kind = type("_Part", (_Group,), {"summaries": GROUPS[name], "folder": name})
        own.callback(cls=kind, no_args_is_help=True)(function)
    else:
        bases = (_Headed, *filter(None, [getattr(module, "CLASS", None)]))
        headings = HEADINGS.get(f"{folder} {name}".strip(), {})
        own.command(name, cls=type("_Command", bases, {"headings": headings}))(function)
    made = typer.main.get_command(own)
    made.name = name
    made.epilog = epilog(f"{folder} {name}".strip())
    return made


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
        _open_standard_streams()
        _escape_output()
        _stop_in_order()
        app()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except TracekitError as error:
        _fail(error)
    except Exception as error:
        known = foreign_error(error)
        if known is None:
            raise
        _fail(known)


def program() -> None:
    """Run the program as a process of its own, which ends with it."""
    try:
        main()
    except SystemExit as ended:
        _leave(ended.code)


def _leave(code: str | int | None) -> NoReturn:
    """End the process once what is left to do at exit is done and the output is written.

    Taking apart all that was loaded would cost a short command a tenth of a second.
    """
    if isinstance(code, int) and threading.active_count() == 1:
        atexit._run_exitfuncs()
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)  # Python waits for threads, and reports what could not be written


def _give_up_output() -> None:
    """Let the output lead nowhere; at exit Python tries again what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(error: TracekitError) -> NoReturn:
    try:
        sys.stdout.flush()
    except OSError:
        _give_up_output()
    typer.echo(f"tracekit: {error}", err=True)
    if error.hint:
        typer.echo(f"  {escape(error.hint)}", err=True)
    sys.exit(error.exit_code)


def _open_standard_streams() -> None:
    """Let closed standard streams lead nowhere, so that no file of ours gets their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # The lowest free number is the one that was closed, as lower ones are open by now.
            mode = "r" if number == 0 else "w"
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - as long as the program


def _escape_output() -> None:
    """Let nothing that is printed act on a terminal, whoever prints it: click and Python, too."""
    sys.stdout = cast("TextIO", EscapedStream(sys.stdout))
    sys.stderr = cast("TextIO", EscapedStream(sys.stderr))


def _stop_in_order() -> None:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does: what is half done is removed."""

    def stop(number: int, _frame: object) -> NoReturn:
        sys.exit(128 + number)

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        # What the caller ignores, as nohup does, stays ignored.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, stop)
