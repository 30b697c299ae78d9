"""The documentation page of each command, made from the help that the command itself gives.

`make docs` writes them; a test compares them with what would be written now.
"""

import inspect
from pathlib import Path

from typer.testing import CliRunner

from tracekit.cli import app
from tracekit.commands import COMMANDS, GROUPS, SECTIONS, function_name, load

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "commands"
INDEX = """\
# Commands

Made by `make docs` from the commands' own help, as are the [man pages](../completion.md#man-pages).

"""
EXIT_CODES = """\
## Exit codes

Results go to stdout, messages and progress to stderr; every reporting command has `--json`.

| code | meaning |
|---|---|
| 0 | done |
| 1 | failed, such as by a file with wrong content: one line says what, where, and what to do |
| 2 | usage error: an option that cannot be, or a path that does not exist |
| 3 | done in part: what is there is good, the message says what is missing |
| 4 | done, but not within limits: of a replay's times, a prediction, a gate, a fitted profile |
| 5 | done, but nobody can tell whether it was within these limits |
| any | `capture` with a command: the command's own, if that failed; 128 and its signal |

Folders above a result are made; the folder for a target has to be there, as it may be of a disk
that is not mounted.
"""


def help_text(*words: str) -> str:
    """Return what `tracekit WORDS --help` prints on a terminal of 88 columns."""
    result = CliRunner().invoke(app, [*words, "--help"], prog_name="tracekit", terminal_width=88)
    if result.exit_code != 0:
        raise RuntimeError(f"tracekit {' '.join(words)} --help failed: {result.output}")
    return result.stdout.strip()


def index() -> str:
    """Return the page of the program itself: its help, its commands by what they are for."""
    text = help_text()
    options, examples = (
        text.partition(f"\n\n{next(iter(SECTIONS))}:")[0],
        text.partition("\n\n  Ex"),
    )
    parts = [INDEX, f"```text\n{options}\n\n  Ex{examples[2]}\n```\n\n"]
    for title, commands in SECTIONS.items():
        parts.append(f"## {title}\n\n| command | what it does |\n|---|---|\n")
        for name in commands:
            text = inspect.getdoc(getattr(load(name), function_name(name))) or ""
            first = text.partition("\n\n")[0].replace("\n", " ")
            parts.append(f"| [{name}]({name}.md) | {first} |\n")
        parts.append("\n")
    return "".join([*parts, EXIT_CODES])


def pages() -> dict[Path, str]:
    """Return the path and the text of every page."""
    found = {FOLDER / "README.md": index()}
    for name in COMMANDS:
        parts = list(GROUPS.get(name, ()))
        found[FOLDER / f"{name}.md"] = (
            f"# tracekit {name}\n\n```text\n{help_text(name)}\n```\n\n"
            + "".join(f"## {part}\n\n```text\n{help_text(name, part)}\n```\n\n" for part in parts)
            + "[All commands and their exit codes](README.md)\n"
        )
    return found


def main() -> None:
    """Write the pages and remove those of commands that are gone."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for path in set(FOLDER.glob("*.md")) - set(wanted):
        path.unlink()
    for path, text in wanted.items():
        path.write_text(text)


if __name__ == "__main__":
    main()
