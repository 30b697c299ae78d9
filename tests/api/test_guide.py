"""docs/python.md is true: its statements print what it shows, in a script and in a notebook."""

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.docs.guide import GUIDE, examples
from tests.house.tree import ROOT

EXAMPLES = examples(GUIDE.read_text())


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "sample-traces").symlink_to(ROOT / "sample-traces")
    return tmp_path


def test_every_statement_prints_what_is_shown_and_warns_of_nothing(checkout: Path) -> None:
    # GIVEN a folder that looks like a checkout, and warnings that are errors
    command = [sys.executable, "-W", "error", "-m", "tests.docs.guide", "--json"]
    settings = {**os.environ, "PYTHONPATH": str(ROOT)}
    # WHEN the statements are run one after another
    done = subprocess.run(
        command, cwd=checkout, env=settings, capture_output=True, text=True, check=False
    )
    # THEN each prints what the guide shows, and nothing else does; if it does not: make docs
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [example.shown for example in EXAMPLES]
    assert len(EXAMPLES) > 20


class Tags(HTMLParser):
    """Collects the tags of a page and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(cell: Any) -> dict[str, Any]:
    """Return what a cell shows as its value, by media type."""
    (output,) = [one for one in cell.outputs if one.output_type == "execute_result"]
    data: dict[str, Any] = output.data
    return data


def test_a_notebook_shows_traces_tables_answers_and_figures(checkout: Path) -> None:
    # GIVEN a notebook whose cells end in a trace, a table, an answer and a figure
    sources = [
        'import tracekit as tk; t = tk.parse("sample-traces/oltp"); t',
        "t.classify()",
        "t.requests.limit(3)",
        'a = t.recommend(capacity="16MiB"); a',
        "a.plot()",
    ]
    v4: Any = nbformat.v4
    notebook = v4.new_notebook(cells=[v4.new_code_cell(source) for source in sources])
    # WHEN a kernel runs it
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(checkout)}}).execute()
    trace, classified, table, answer, figure = (shown(cell) for cell in notebook.cells)
    # THEN they show themselves as HTML, the figure as a picture
    assert "48,698 requests" in Tags(trace["text/html"]).text
    assert "journal 27,347" in Tags(classified["text/html"]).text
    assert Tags(table["text/html"]).tags >= {"table", "td"}
    assert "With 16 MiB of dax-pcm" in Tags(answer["text/html"]).text
    assert figure["image/png"].startswith("iVBOR")
    # THEN nothing in it acts, and nothing was said on stderr
    for data in (trace, classified, table, answer):
        page = Tags(data["text/html"])
        assert page.tags <= {"div", "strong", "p", "table", "thead", "tbody", "tr", "th", "td"}
        assert page.attributes == set()
    streams = [
        out for cell in notebook.cells for out in cell.outputs if out.output_type == "stream"
    ]
    assert streams == []
