"""Makes the man pages of docs/commands/, which `make docs` makes of the commands' own help.

python man.py FOLDER
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHANGED = re.compile(r"^- (\d{4}-\d\d-\d\d):", re.MULTILINE)
HELP = re.compile(r"(?<=^```text\n)Usage: .*?(?=^```$)", re.DOTALL | re.MULTILINE)
TITLE = re.compile(r"^([A-Z][\w ]+|  Examples):$")
ROW = re.compile(r"^## (.+)$|^\| (?:\[(.+?)\]\(.+?\)|(\w+)) \| (.+) \|$", re.MULTILINE)
# What troff would draw as other signs than these, which one could not copy from the page.
SIGNS = str.maketrans({"\\": r"\e", "-": r"\-", "'": r"\(aq", "^": r"\(ha", "~": r"\(ti"})


def literal(text: str) -> str:
    """Write a text so that it is printed letter by letter, but for code, which is bold."""
    bold = re.sub(r"`([^`]+)`", r"\\fB\1\\fP", text.translate(SIGNS))
    return r"\&" + bold if bold.startswith(".") else bold


def joined(lines: list[str]) -> str:
    """Join the lines of a paragraph, which may have been broken behind a hyphen."""
    return re.sub(r"(?<=\w-) (?=\w)", "", " ".join(line.strip() for line in lines)).strip()


def entry(term: str, text: str) -> tuple[str, ...]:
    """Write a term, and behind it what it means."""
    return ".TP", rf"\fB{literal(term)}\fP", literal(text)


def section(title: str, lines: list[str]) -> Iterator[str]:
    """Write a section of a help: the description, which has no title, entries, or examples."""
    text = "\n".join(lines).strip("\n")
    yield f".SH {title.upper() or 'DESCRIPTION'}"
    if title == "Examples":
        yield from (".nf", *map(literal, text.splitlines()), ".fi")
    elif title:
        for one in re.split(r"\n(?=  \S)", text):
            first, *more = one.strip().splitlines()
            term, _, begun = first.partition("  ")
            yield from entry(term, joined([begun, *more]))
    else:
        paragraphs = text.strip().split("\n\n")
        yield "\n.PP\n".join(literal(joined(one.splitlines())) for one in paragraphs)


def body(name: str, text: str) -> Iterator[str]:
    """Write what the help of a command says."""
    usage, _, rest = text.removeprefix("Usage: ").partition("\n\n")
    summary = joined(rest.partition("\n\n")[0].splitlines()).rstrip(".")
    yield from (".SH NAME", rf"{literal(name)} \- {literal(summary)}")
    yield from (".SH SYNOPSIS", literal(joined(usage.splitlines())))
    title, lines = "", list[str]()
    for line in rest.splitlines():
        if found := TITLE.match(line):
            yield from section(title, lines)
            title, lines = found[1].strip(), []
        else:
            lines.append(line)
    yield from section(title, lines)


def tables(text: str) -> Iterator[str]:
    """Write the tables of the index, commands and exit codes, with their headings."""
    for title, command, code, meaning in ROW.findall(text):
        if title:
            yield f".SH {title.upper()}"
        elif command or code.isdigit() or code == "any":
            yield from entry(f"tracekit-{command}" if command else code, meaning)


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name of each command, with a hyphen for each space, and its page without head."""
    for path in sorted(ROOT.glob("docs/commands/*.md")):
        text = path.read_text()
        helps = HELP.findall(text)
        names = [one[len("Usage: ") : one.index(" [OPTIONS]")].replace(" ", "-") for one in helps]
        for name, one in zip(names, helps, strict=True):
            lines = [*body(name, one), *(tables(text) if name == "tracekit" else ())]
            near = names[1:] if name == names[0] else names[:1]
            others = [f"{other}(1)" for other in ("tracekit", *near) if other != name]
            if others:
                lines += [".SH SEE ALSO", literal(", ".join(others))]
            yield name, "\n".join(lines) + "\n"


def main(folder: str) -> None:
    """Write the pages, dated as the last change, and remove those of commands that are gone."""
    output = Path(folder)
    output.mkdir(parents=True, exist_ok=True)
    for path in output.glob("tracekit*.1"):
        path.unlink()
    date = max(CHANGED.findall((ROOT / "CHANGELOG.md").read_text()))
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for name, text in pages():
        head = f'.TH {name.upper()} 1 {date} "tracekit {version}"\n'
        (output / f"{name}.1").write_text(head + text)


if __name__ == "__main__":
    main(*sys.argv[1:])
