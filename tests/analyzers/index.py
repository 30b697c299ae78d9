"""The index of `analyzers/`, made from the headers of its files.

`make docs` writes it; a test compares it with what would be written now.
"""

from tracekit.analyze import ANALYSES, CHECKS
from tracekit.paths import data_folder
from tracekit.query import read

FOLDER = data_folder("analyzers")
INDEX = FOLDER / "README.md"
HEAD = """\
# Analyzers

One file is one question: one SELECT, whose result is a table of the file's name. The comment at the
head says the question, what one row of the result is, the tables it reads, its parameters and its
columns. `tracekit analyze TRACE` runs those below and writes `findings/<name>.parquet`; a file runs
alone with `tracekit analyze TRACE --only NAME --param NAME=NUMBER`. Percentiles come from
log-linear histograms (`lib/percentiles_of.sql`): these are added up, so a longer trace needs no
more memory, and they name a latency that was seen, at most 0.8 % above the exact rank. Tables that
a header names as `counted` are histograms that one pass makes for several files.

A new analysis is a file here, its name in `ANALYSES` (`tracekit/analyze.py`), and a small input and
the result worked out by hand in `tests/analyzers/`. This page is made by `make docs`.
"""
TITLES = {
    "traffic": "Who asks for how much of what (extents: run by `tracekit simulate tiers`)",
    "latency": "How long it takes, and how much is under way at once",
    "workload": "In which pattern",
    "locality": "To which blocks",
    "volume": "What studies of cloud volumes measure of each device",
    "set": "What volumes of a trace set are like, and what each gets (run by `tracekit report`)",
    "replay": "What a replay did (run by `tracekit report`)",
    "files": "What was done with files: traced, replayed (run by `tracekit report`), and by"
    " personalities (run by `tracekit sweep`)",
    "checks": "Whether the tables hold what they promise: no row is the good result",
    "lib": "Macros, views and settings that the others stand on",
}


def files() -> list[str]:
    """Return the names of all SQL files: what `analyze` runs in its order, then the others."""
    known = [*ANALYSES, *CHECKS]
    found = sorted(str(file.relative_to(FOLDER))[: -len(".sql")] for file in FOLDER.glob("*/*.sql"))
    return known + [name for name in found if name not in known]


def index() -> str:
    """Return the text of the index."""
    lines = [HEAD]
    for folder, title in TITLES.items():
        lines += [f"## {folder}: {title}\n", "| file | question | one row |", "|---|---|---|"]
        for name in files():
            if name.startswith(f"{folder}/"):
                query = read(name)
                grain = query.grain.removeprefix("one row per ")
                lines.append(f"| [{query.table}]({name}.sql) | {query.question} | {grain} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    INDEX.write_text(index())
