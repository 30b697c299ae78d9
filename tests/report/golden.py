"""The text of a page with every section, compared as a whole with golden.txt.

After a change of wording or numbers that is meant: `python -m tests.report.golden`, and read the
difference before it is committed.
"""

import re
import tempfile
from contextlib import chdir
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.command_line import invoke
from tests.report.folder import make_folder, write_measurements
from tests.shared import made_once
from tests.simulate.memory_models import some_accesses, with_accesses
from tracekit import __version__
from tracekit.errors import BudgetError
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.report.page import report
from tracekit.store import TraceFolder

GOLDEN = Path(__file__).with_name("golden.txt")
COMMANDS = (
    "simulate sensitivity trace",
    "simulate endurance trace",
    "simulate purchase trace --nvm ssd-nvme,ssd-nvme-plp,optane-p4800x,cxl-dram",
    "simulate rivals trace",
    "simulate tiers trace --extent 64KiB --step 25 --dynamic --window 2s",
    "simulate cache trace --sizes 64KiB,256KiB --policy lru,arc,optimum",
    "simulate buffer trace --caches 1KiB/2,4KiB/4",
    "compare trace trace file",
    "fit trace -o profile.toml --force",
)
WARNING = {"code": "lost_records", "message": "12 records were <lost>", "advice": "Capture again."}
GUESS = {"what": "queue of flushes", "value": "as issued", "evidence": "no Q record"}
LOSS = {"sequence_gaps": 1, "lost_records": 12, "dropped": 0, "unmatched": {"queue": 3}}


def make_full_folder(path: Path) -> TraceFolder:
    """Make a folder with all that a report can show; the same one each time."""
    folder = make_folder(path, stages=("classify", "analyze", "replay"), warnings=[WARNING])
    with_accesses(folder, some_accesses(3000), instructions=9000)
    folder = TraceFolder(path)
    folder.save_info(inferences=[GUESS], loss=LOSS)
    recommend(TraceFolder(path), RecommendOptions())
    with chdir(path.parent):
        for command in COMMANDS:
            done = invoke(*command.split())
            # So few requests have no profile that answers as they do: that is an exit code only.
            is_profile = command.startswith("fit") and isinstance(done.exception, BudgetError)
            assert done.exit_code == 0 or is_profile, done.output
    write_measurements(TraceFolder(path))
    return TraceFolder(path)


def full_folder(factory: pytest.TempPathFactory) -> TraceFolder:
    """Return the folder of `make_full_folder` that all tests of a run read."""
    place = made_once(factory, "full", lambda place: make_full_folder(place / "trace"))
    return TraceFolder(place / "trace")


class Text(HTMLParser):
    """Collects the text of a page: a line a block or row of a table, without figures and SQL.

    Of the table behind a figure one row is enough: the queries have tests.
    """

    BLOCKS = ("h1", "h2", "h3", "h4", "p", "li", "tr", "summary", "dt", "dd", "div", "pre")
    SKIPPED = (("style", ""), ("script", ""), ("svg", ""), ("nav", "contents"), ("details", "sql"))

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.line = ""
        self.skipped = ""
        self.source_rows: int | None = None
        self.is_code = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self.skipped:
            return
        kind = dict(attrs).get("class") or ""
        if any(tag == name and kind.startswith(start) for name, start in self.SKIPPED):
            self.skipped = tag
        elif tag in self.BLOCKS:
            self.end_line()
            self.line = "\n## " if tag == "h2" else f"{'#' * int(tag[1])} " if tag[0] == "h" else ""
            self.is_code = tag == "pre"
            if tag == "tr" and self.source_rows is not None:
                self.source_rows += 1
        elif tag in ("td", "th") and self.line:
            self.line = self.line.rstrip() + " | "
        elif tag == "small":
            self.line += " "
        if (tag, kind) == ("details", "source"):
            self.source_rows = 0

    def handle_endtag(self, tag: str) -> None:
        if tag == self.skipped:
            self.skipped = ""
        elif not self.skipped:
            if tag in self.BLOCKS:
                self.end_line()
            if tag == "details":
                self.source_rows = None

    def handle_data(self, data: str) -> None:
        if not self.skipped:
            text = data if self.is_code else re.sub(r"\s+", " ", data)
            self.line += text if self.line else text.lstrip()

    def end_line(self) -> None:
        is_shown = self.source_rows is None or self.source_rows <= 2
        if self.line.strip() and is_shown:
            self.lines.append(self.line.rstrip())
        self.line = ""


def text_of(page: str) -> str:
    """Return the text of a page, without the versions of what made it."""
    parser = Text()
    parser.feed(page)
    parser.close()
    text = "\n".join(parser.lines).replace("\N{NO-BREAK SPACE}", " ") + "\n"
    text = text.replace(f"tracekit {__version__}", "tracekit X").replace(f"| {__version__}", "| X")
    return re.sub(r"(libraries \| ).*", r"\1X", text)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        made = report(make_full_folder(Path(place) / "trace"), Path(place) / "report.html")
        GOLDEN.write_text(text_of(made.path.read_text(encoding="utf-8")), encoding="utf-8")
