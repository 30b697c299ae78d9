"""Several traces on one page: its numbers by SQL from Parquet, its verdicts by `compare`."""

import json
import re
import shutil
from html import unescape
from pathlib import Path

import duckdb
import pytest

import tracekit as tk
from tests.command_line import invoke, refused, succeed
from tests.compare.test_compare import add_replay
from tests.compare.test_gate import REQUESTS, made
from tests.report.folder import make_folder
from tests.report.folder import page_of as section_page
from tests.report.test_page import outline
from tracekit.errors import InputError
from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.page import find_figures
from tracekit.report.sections.replay import replay
from tracekit.store import TraceFolder, measurement_folder

pytestmark = pytest.mark.xdist_group("report")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sides")
    for number in (1, 2, 3):
        made(folder / f"before.{number}", seed=number)
        made(folder / f"after.{number}", seed=10 + number, slower=1.5, blocks=200)
    made(folder / "single", seed=7)
    for one in folder.iterdir():
        tk.open(one).analyze()
    return folder


def page_of(tmp_path: Path, *words: str | Path) -> str:
    output = tmp_path / "page.html"
    succeed("report", *words, "-o", output)
    text = output.read_text(encoding="utf-8")
    outline(text)
    return text


def rows_of(page: str) -> dict[str, list[list[str]]]:
    """Return the cells of each measure, each with its lines."""
    body = page[page.index('<table class="sides">') : page.index("</table>")]
    found = {}
    for row in body.split("<tr>")[2:]:
        what, *cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        lines = [
            [unescape(re.sub("<.*?>", "", one)) for one in cell.split("<br>")] for cell in cells
        ]
        found[unescape(what)] = lines
    return found


def caption_of(page: str, figure: str) -> str:
    part = page[page.index(f'id="figure-{figure}"') :]
    return unescape(
        re.sub("<.*?>", "", part[part.index("<figcaption>") : part.index("</figcaption>")])
    )


def measured(place: Path, name: str, number: int) -> dict[str, float]:
    """Work out by SQL what the page says of one run."""
    query = """
        with requests as (from read_parquet($1)),
        hits as (select sector, count(*) as hits from requests group by sector),
        ranked as (
            select sum(hits) over (order by hits desc rows unbounded preceding) as taken
            from hits
        )
        select
            count(*) as requests,
            sum(length_bytes) as bytes,
            count(distinct sector) * 4096 as footprint,
            avg(complete_ns - queue_ns) filter (where operation = 'read') as "avg fs read",
            (
                select (1 + count(*) filter (where taken < $2)) * 4096 from ranked
            ) as half
        from requests
    """
    file = str(place / f"{name}.{number}/requests.parquet")
    found = duckdb.connect().execute(query, [file, REQUESTS / 2])
    return dict(zip((one[0] for one in found.description), found.fetchall()[0], strict=True))


def test_the_numbers_of_the_page_are_those_of_the_requests(place: Path, tmp_path: Path) -> None:
    page = page_of(tmp_path, place / "before", place / "after")
    runs = {
        name: [measured(place, name, number) for number in (1, 2, 3)]
        for name in ("before", "after")
    }
    rows = rows_of(page)
    for what, write in (
        ("requests", fmt.count), ("bytes", fmt.data), ("footprint", fmt.data),
        ("avg fs read", fmt.duration),
    ):  # fmt: skip
        before, after = ([run[what] for run in runs[name]] for name in ("before", "after"))
        # THEN each value is the mean of the repeats, the change of their geometric means
        assert rows[what][0][0] == write(sum(before) / 3), what
        assert rows[what][1][0] == write(sum(after) / 3), what
        ratio = duckdb.execute(
            "select exp(avg(ln(a)) - avg(ln(b))) from (select unnest($1) as a, unnest($2) as b)",
            [after, before],
        ).fetchall()[0][0]
        change = rows[what][1][1].replace(fmt.MINUS, "-").partition(" (")[0]
        assert change == f"{(ratio - 1) * 100:+.1f}%", what
    # AND so are those under the figures, of repeats the least and the most
    for figure, key in (("footprint", "footprint"), ("coverage", "half")):
        ends = [
            (
                fmt.data(min(run[key] for run in runs[name])),
                fmt.data(max(run[key] for run in runs[name])),
            )
            for name in ("before", "after")
        ]
        expected = [low if low == high else f"{low} to {high}" for low, high in ends]
        assert f"before {expected[0]}, after {expected[1]}." in caption_of(page, figure)


def test_the_verdicts_are_those_of_compare(place: Path, tmp_path: Path) -> None:
    pair = place / "before", place / "after"
    found = json.loads(invoke("compare", *pair, "--json").stdout)
    page = page_of(tmp_path, *pair)
    rows = rows_of(page)
    shown = {
        row["measure"] if row["role"] == "all"
        else f"{row['measure']} {row['role']} {row['operation']}": row["verdict"]
        for row in found["rows"]
    }  # fmt: skip
    assert {what: cells[1][-1].rpartition(", ")[2] for what, cells in rows.items()} == shown
    assert {"worse", "better", "same"} <= {*shown.values()}
    assert f"<h1>after against before: {found['verdict']}</h1>" in page
    assert all(line in unescape(page) for line in found["headline"])
    # AND each figure of curves has both in its legend, three curves each
    figures = re.findall(r"<figure.*?</figure>", page, re.DOTALL)
    legends = [re.findall(r"</svg>(before|after)</li>", figure) for figure in figures]
    assert legends == [["before", "after"]] * 6 + [[]]


def test_more_names_than_colours_are_named(place: Path, tmp_path: Path) -> None:
    names = [f"copy-{number}" for number in range(len(charts.series()) + 1)] + ["<b>last"]
    for name in names:
        shutil.copytree(place / "single", tmp_path / name)
    page = page_of(tmp_path, *(tmp_path / name for name in names))
    assert [len(cells) for cells in rows_of(page).values()] == [len(names)] * len(rows_of(page))
    assert ">2 without a curve," in page
    assert "have all: copy-10, &lt;b&gt;last." in page
    assert "<h1>Against copy-0: 11 " in page
    assert "<b>last" not in page
    # AND findings of other roles than the requests have now are marked
    tk.open(tmp_path / "copy-1").classify(role=["sda=journal"])
    page = page_of(tmp_path, tmp_path / "copy-0", tmp_path / "copy-1")
    assert re.findall(r"<h3>(Outdated): findings/", page) == ["Outdated"]
    assert f"tracekit analyze {tmp_path / 'copy-1'}" in page


def test_replays_of_a_trace_are_overlaid(place: Path, tmp_path: Path) -> None:
    folder = TraceFolder(shutil.copytree(place / "single", tmp_path / "trace"))
    for number in (1, 2, 3):
        took = {one: 1000 + (one * number) % 7 for one in range(200)}
        add_replay(folder, f"base.{number}", took, 10**6 + number)
        add_replay(folder, f"slow.{number}", {one: 2 * ns for one, ns in took.items()}, 10**6)
    found = json.loads(
        invoke("compare", folder.path, "base", "slow", "--gate", "avg", "--json").stdout
    )
    page = page_of(tmp_path, folder.path, "base", "slow")
    rows = rows_of(page)
    for row in found["gates"][0]["rows"]:
        cells = rows[f"{row['measure']} {row['role']} {row['operation']}"]
        assert cells[1][1] == "+100.0% (+100.0% to +100.0%), worse"
        assert (cells[0][0], cells[1][0]) == (
            fmt.duration(row["before"]),
            fmt.duration(row["after"]),
        )
    assert rows["elapsed"][0][0] == fmt.duration(10**6 + 2)
    # Of buckets a quarter of an octave wide, the upper ends.
    service = re.findall(r"(\d[\d.]*) µs", caption_of(page, "replays-service").replace("\xa0", " "))
    assert [float(one) for one in service] == pytest.approx([1.003, 2.006], rel=0.2)
    # AND the trace has a curve, of the requests that were replayed
    page = page_of(tmp_path, folder.path, "trace", "base")
    (half_ns,) = duckdb.execute(
        "select median(complete_ns - issue_ns) from read_parquet($1) where request_id < 200",
        [str(folder.path / "requests.parquet")],
    ).fetchall()[0]
    said = re.findall(r"(\d[\d.]*) µs", caption_of(page, "replays-service").replace("\xa0", " "))
    assert [float(one) for one in said] == pytest.approx([half_ns / 1000, 1.003], rel=0.2)


def test_a_report_overlays_its_replays(tmp_path: Path) -> None:
    # GIVEN a replay, and one that was repeated
    folder = make_folder(tmp_path / "trace", stages=("classify", "analyze", "replay"))
    for name in ("again.1", "again.2"):
        shutil.copytree(folder.path / "replays/file", folder.path / "replays" / name)
    page = section_page(folder, replay)
    # THEN each figure is there once, with a curve of each run and a colour of each name
    figures = re.findall(r'<figure id="figure-([^"]*)".*?>(.*?)</figure>', page, re.DOTALL)
    assert [name.removeprefix("replays-") for name, _ in figures] == [
        "throughput", "late", "response", "service", *(f"replay-heat-map-{run}" for run in range(3))
    ]  # fmt: skip
    drawn = [one for name, one in figures if name.startswith("replays-")]
    assert all(re.findall(r"</svg>(\S+)</li>", one) == ["again", "file"] for one in drawn)
    # AND figures of one run can still be drawn
    assert {"replay-file-service", "replays-service"} <= {*find_figures(folder, "replay")}


def test_what_cannot_be_put_side_by_side(place: Path, tmp_path: Path) -> None:
    link, other = tmp_path / "link", tmp_path / "taken.html"
    link.symlink_to(place / "single")
    other.write_text("mine")
    swept, raw = tmp_path / "swept", made(tmp_path / "raw", seed=1)
    measurement_folder(swept)  # as a sweep makes it
    mixed = TraceFolder(shutil.copytree(place / "single", tmp_path / "mixed"))
    add_replay(mixed, "x", {0: 1}, 1)
    one, before = place / "single", place / "before"
    cases: tuple[tuple[tuple[Path | str, ...], str], ...] = (
        ((one, one), "compared with itself"),
        ((one, link), "compared with itself"),
        ((one, before, place / "before.2"), "compared with itself"),
        ((one, tmp_path), "no trace folder of this name"),
        ((one, swept), "holds no requests"),
        ((one, raw), "there is no table 'findings/"),
        ((mixed.path, "x", before), "is a replay of"),
        ((mixed.path, before, "x"), "is a replay of"),
        ((mixed.path, "x", before / "replays/x"), "there is no replay"),
        ((mixed.path, "x", "y"), "there is no replay 'y'"),
        ((mixed.path, "x"), "no trace folder of this name"),
    )
    output = tmp_path / "page.html"
    for words, said in cases:
        error = InputError if "findings" in said else tk.UsageError
        refused(invoke("report", *words, "-o", output), said, error=error)
        assert not output.exists()
    refused(invoke("report", one, before, "-o", other), "exists already")
    refused(invoke("report", one, before, "-o", tmp_path), "is a folder")
    assert other.read_text() == "mine"
