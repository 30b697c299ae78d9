"""The dialogue of `tracekit sql`: statements line by line, with a history and help."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tracekit import query
from tracekit.errors import TracekitError
from tracekit.sql import describe, notes, write

if TYPE_CHECKING:
    from tracekit.store import TraceFolder

HELP = """\
Statements end with ';' and can go over several lines. Only statements that read are run.
  .tables          the tables of this trace
  .schema [TABLE]  the columns of a table, or of all tables, with their units
  .mode FORMAT     show results as table, csv or json
  .help            this text
  .quit            leave, as does Ctrl-D; Ctrl-C drops what was typed
"""
HISTORY_LINES = 1000


class Dialogue:
    """Reads statements from stdin and writes their results to a stream until the input ends."""

    def __init__(self, connection: Any, folder: TraceFolder, stream: IO[str]) -> None:
        self.connection = connection
        self.folder = folder
        self.stream = stream
        self.format_name = "table"
        self.is_terminal = sys.stdin.isatty()

    def run(self) -> None:
        """Answer until `.quit` or the end of the input; an error ends only its statement."""
        history = self._begin() if self.is_terminal else None
        pending = ""
        try:
            while True:
                try:
                    line = self._line(pending)
                except KeyboardInterrupt:
                    self.stream.write("\n")
                    pending = ""
                    continue
                if line is None or (not pending and line.strip() in (".quit", ".exit")):
                    break
                pending = self._take(pending, line)
            if pending.strip():
                self._answer(pending)
        finally:
            if history is not None:
                _save_history(history)

    def _line(self, pending: str) -> str | None:
        """Return the next line of input, None at its end."""
        prompt = ("    ...> " if pending else "tracekit> ") if self.is_terminal else ""
        try:
            return input(prompt)
        except EOFError:
            if self.is_terminal:
                self.stream.write("\n")
            return None

    def _take(self, pending: str, line: str) -> str:
        """Run what is complete with this line and return what is not."""
        if not pending and line.startswith("."):
            self._command(line.split())
            return ""
        pending = f"{pending}{line}\n" if pending or line.strip() else ""
        if not pending.rstrip().endswith(";"):
            return pending
        self._answer(pending)
        return ""

    def _command(self, words: list[str]) -> None:
        name, arguments = words[0], words[1:]
        if name == ".tables":
            self.stream.write("\n".join(query.views(self.connection)) + "\n")
        elif name == ".schema":
            self._schema(arguments)
        elif name == ".mode" and arguments and arguments[0] in ("table", "csv", "json"):
            self.format_name = arguments[0]
        elif name == ".help":
            self.stream.write(HELP)
        else:
            self._complain(f"{' '.join(words)} is unknown; .help lists what there is")

    def _schema(self, names: list[str]) -> None:
        if not names:
            self.stream.write(describe(self.folder))
        for name in names:
            found = [note for note in notes() if note.name == name]
            if not found:
                self._complain(f"there is no table {name}; .tables lists them")
            for note in found:
                self.stream.write(f"{note.name}: {note.grain}\n")
                for column, meaning in note.columns.items():
                    self.stream.write(f"  {column}: {meaning}\n")

    def _answer(self, text: str) -> None:
        try:
            write(query.ask(self.connection, text), self.stream, format_name=self.format_name)
        except TracekitError as error:
            self._complain(str(error))
            if error.hint:
                self._complain(f"  {error.hint}")
        except KeyboardInterrupt:
            self._complain("interrupted")

    def _complain(self, message: str) -> None:
        self.stream.flush()
        sys.stderr.write(message + "\n")

    def _begin(self) -> Path:
        """Greet, and load the history and the names that Tab completes; return the history file."""
        import readline

        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        history = state / "tracekit" / "sql_history"
        if history.is_file():
            readline.read_history_file(history)
        words = query.views(self.connection)
        words += sorted({column for note in notes() for column in note.columns})
        readline.set_completer(lambda start, number: _completion(words, start, number))
        readline.parse_and_bind("tab: complete")
        self.stream.write(f"{self.folder.path}: .help for help, Ctrl-D to leave\n")
        return history


def _completion(words: list[str], start: str, number: int) -> str | None:
    """Return the match of this number of the word that was begun, None after the last."""
    matches = [word for word in words if word.startswith(start)]
    return matches[number] if number < len(matches) else None


def _save_history(history: Path) -> None:
    """Keep the last lines for the next time; a home that cannot be written is no failure."""
    import readline

    readline.set_history_length(HISTORY_LINES)
    try:
        history.parent.mkdir(parents=True, exist_ok=True)
        readline.write_history_file(history)
    except OSError:
        return
