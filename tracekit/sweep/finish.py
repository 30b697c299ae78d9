"""The end of a sweep: its answer, with the command lines that led to it, and the report."""

from __future__ import annotations

from collections.abc import Sequence

from tracekit.metadata import read_object
from tracekit.report.page import report
from tracekit.store import write_json
from tracekit.sweep.run import Swept
from tracekit.sweep.summary import headline

ANSWER = "files/sweep.json"


def finish(swept: Swept, asked: Sequence[str], *, with_report: bool) -> None:
    """Write what was found and the command lines of the folder so far; write the report."""
    if not swept.has_results:
        return
    folder = swept.folder
    file = folder.path / ANSWER
    there = read_object(file, hint="remove the file")["asked"] if file.is_file() else []
    lines = [*there, *([] if list(asked) in there else [list(asked)])]
    write_json(file, {"headline": headline(folder), "asked": lines})
    if with_report:
        report(folder, folder.path / "report.html")
