"""The page of a set: its numbers beside those worked out from the requests, and what is missing."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow.parquet as pq
import pytest

import tracekit as tk
from tests.command_line import invoke, refused, succeed
from tracekit.errors import InputError, PartialError, UsageError
from tracekit.fleet.catalogue import TraceSet
from tracekit.fleet.set_tables import SetTables
from tracekit.report import formatting as fmt

BLOCK = 4096


class Page(HTMLParser):
    """The rows of each section's tables, its text and its links."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.rows: dict[str, list[list[str]]] = {}
        self.text: dict[str, str] = {}
        self.links: dict[str, list[str]] = {}
        self.section = ""
        self.is_cell = False
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a section, a row or a cell."""
        values = dict(attrs)
        if tag == "section":
            self.section = str(values["id"])
            self.rows[self.section], self.links[self.section] = [], []
        elif tag == "tr" and self.section:
            self.rows[self.section].append([])
        elif tag in ("td", "th") and self.section:
            self.rows[self.section][-1].append("")
            self.is_cell = True
        elif tag == "a" and self.section:
            self.links[self.section].append(str(values["href"]))

    def handle_endtag(self, tag: str) -> None:
        """End a cell."""
        if tag in ("td", "th"):
            self.is_cell = False

    def handle_data(self, data: str) -> None:
        """Add to the text of the section, and of the cell."""
        if self.section:
            self.text[self.section] = self.text.get(self.section, "") + data
            if self.is_cell:
                self.rows[self.section][-1][-1] += data


def measured(trace: tk.Trace) -> dict[str, Any]:
    """Work out what a volume is like from its requests, one after the other."""
    rows = pq.read_table(trace.folder.table("requests")).to_pylist()
    blocks = {
        block
        for row in rows
        for block in range(
            row["sector"] * 512 // BLOCK,
            (row["sector"] * 512 + row["length_bytes"] - 1) // BLOCK + 1,
        )
    }
    windows = np.bincount([row["queue_ns"] // (60 * 10**9) for row in rows])
    first, last = np.flatnonzero(windows)[[0, -1]]
    return {
        "requests": fmt.count(len(rows)),
        "footprint": fmt.data(len(blocks) * BLOCK),
        "writes": fmt.share(sum(row["operation"] == "write" for row in rows) / len(rows)),
        "burstiness": fmt.number(windows.max() / windows[first : last + 1].mean()),
    }


def page_of(found: tk.Set) -> Page:
    return Page(found.report().path)


def test_the_table_of_volumes_is_what_their_requests_say(whole_set: tk.Set) -> None:
    heads, *rows = page_of(whole_set).rows["set_volumes"][: len(whole_set) + 1]
    shares = json.loads((whole_set.path / "placement.json").read_text())["shares"]
    assert {row[0] for row in rows} == {*whole_set}
    by_gain = sorted(shares, key=lambda one: -one["saved_s_an_hour_a_gib"])
    assert [row[0] for row in rows][:3] == [one["trace"] for one in by_gain][:3]
    for row in rows:
        shown = dict(zip(heads, row, strict=True))
        (share,) = (one for one in shares if one["trace"] == row[0])
        assert shown["NVM"] == fmt.data(share["capacity_bytes"])
        assert shown["twice as much"] == fmt.data(share["doubled_bytes"])
        assert shown["s an hour a GiB"] == fmt.number(share["saved_s_an_hour_a_gib"])
        expected = measured(whole_set[row[0]])
        assert {name: shown[name] for name in expected} == expected


def test_the_answer_is_the_division(whole_set: tk.Set) -> None:
    page = page_of(whole_set)
    content = json.loads((whole_set.path / "placement.json").read_text())
    used, answer = content["budget"], page.text["set_answer"]
    assert f"Place {fmt.data(used['used_bytes'])} of ssd-optane" in answer
    assert f"{fmt.share(used['saved_ratio'])} less I/O time" in answer
    rows = [[cell for cell in row if cell] for row in page.rows["set_answer"]]
    roles: dict[str, int] = {}
    for share in content["shares"]:
        for role, size in share["role_bytes"].items():
            roles[role] = roles.get(role, 0) + size
    (shown,) = (row[1] for row in rows if row[0] == "roles")
    assert [part.partition(" in ")[0] for part in shown.split("; ")] == [
        f"{'no known role' if role == 'unknown' else fmt.role_title(role)} {fmt.data(size)}"
        for role, size in sorted(roles.items(), key=lambda one: -one[1])
    ]
    most = max(content["shares"], key=lambda one: one["saved_s_an_hour"])
    assert rows[2][1].startswith(f"{most['trace']}: {fmt.data(most['capacity_bytes'])} (")
    # AND it is a caution where it is beside another disk than the traced one
    for name, amount in content["bases"].items():
        caution = f"{fmt.plural(amount, 'volume')} is beside {name}, not the disk that was traced"
        assert (caution in page.text["set_cautions"]) == (name != "trace")


def test_activity_and_spread_are_sums_over_volumes(whole_set: tk.Set) -> None:
    page = page_of(whole_set)
    volumes = [pq.read_table(one.folder.table("requests")) for one in whole_set.values()]
    counts = sorted(len(one) for one in volumes)
    (row,) = (one for one in page.rows["set_spread"] if one[0] == "Requests" and len(one) == 8)
    assert row[1] == fmt.count(counts[0])
    assert row[4] == fmt.count(counts[2])
    assert row[-1] == fmt.count(counts[-1])
    # THEN the windows of the set add up to all that was read and written
    activity = SetTables(TraceSet(whole_set.path)).activity
    assert activity is not None
    table = activity.to_pydict()
    assert sum(table["read_count"]) + sum(table["write_count"]) == sum(counts)
    assert max(table["active_volumes"]) <= len(counts)
    heads, *rows = page.rows["set_activity"]
    assert [row[heads.index("read count")] for row in rows] == [
        fmt.count(count) for count in table["read_count"][: len(rows)]
    ]


def test_the_ten_that_matter_come_by_rank(whole_set: tk.Set) -> None:
    rows = page_of(whole_set).rows["set_leaders"]
    begin = rows.index(["volume", "requests"]) + 1
    expected = sorted(((-len(one.requests.arrow()), name) for name, one in whole_set.items()))
    assert [row[0] for row in rows[begin : begin + 6]] == [name for _, name in expected]


def test_links_lead_to_the_reports_of_volumes(whole_set: tk.Set, tmp_path: Path) -> None:
    strange = "a #1?<b>&"
    (whole_set.path / next(iter(whole_set))).rename(whole_set.path / strange)
    found = tk.add_to_set(whole_set.path)
    found[strange].report()
    out = tmp_path / "pages" / "x.html"
    out.parent.mkdir()
    succeed("report", found.path, "-o", out)
    links = [one for one in Page(out).links["set_volumes"] if not one.startswith("data:")]
    assert len(links) == 1
    assert "#" not in links[0]
    target = (out.parent / unquote(links[0])).resolve()
    assert target == (found.path / strange / "report.html").resolve()
    assert "<b>" not in out.read_text().partition("<main>")[2]


def test_what_is_not_there_is_named_with_its_command(tmp_path: Path) -> None:
    traces = [tk.generate("paging", tmp_path / name, requests=50) for name in "ab"]
    found = tk.add_to_set(tmp_path / "set", *(one.path for one in traces))
    shown = succeed("report", found.path)
    for command in ("tracekit analyze set", "tracekit recommend set", "tracekit set groups set"):
        assert command in shown.stderr
        assert command in found.report().path.read_text()
    assert "2\N{NO-BREAK SPACE}volumes" in Page(found.report().path).text["set_answer"]
    # WHEN one of them is analysed, THEN the other is named
    found.classify().check()
    found["a"].analyze()
    page = page_of(found)
    assert re.search(r"1.volume not analysed", page.text["set_cautions"])
    assert "b: " in page.text["set_cautions"]
    assert [row[0] for row in page.rows["set_volumes"]][1:3] == ["a", "b"]


def test_a_set_of_one_volume_has_a_page(tmp_path: Path) -> None:
    trace = tk.generate("web-server", tmp_path / "one", requests=50)
    found = tk.add_to_set(tmp_path / "set", trace.path)
    found.classify().check()
    found.analyze().check()
    page = page_of(found)
    assert [row[0] for row in page.rows["set_volumes"]][1] == "one"
    assert "No volume is missing" in page.text["set_cautions"]


def test_a_set_without_volumes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "set.json").write_text('{"schema": 1, "volumes": []}')
    result = invoke("report", tmp_path)
    refused(result, "no volume to report of", error=InputError)
    assert isinstance(result.exception, InputError)
    assert "tracekit set add" in result.exception.hint
    assert not (tmp_path / "report.html").exists()


def test_another_file_is_not_replaced(whole_set: tk.Set, tmp_path: Path) -> None:
    (tmp_path / "x.html").write_text("mine")
    refused(invoke("report", whole_set.path, "-o", tmp_path / "x.html"), "exists", error=UsageError)
    assert (tmp_path / "x.html").read_text() == "mine"


def damage(place: Path, name: str) -> None:
    """Overwrite the pages of a table, whose footer stays as it is."""
    file = place / "findings" / f"{name}.parquet"
    content = bytearray(file.read_bytes())
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    content[4:end] = os.urandom(end - 4)
    file.unlink()
    file.write_bytes(bytes(content))


def test_damaged_volumes_are_named_at_the_top(whole_set: tk.Set) -> None:
    one, two, three, four, *others = whole_set
    (whole_set.path / one / "trace.json").write_text("{")
    shutil.rmtree(whole_set.path / two)
    damage(whole_set.path / three, "activity")
    (whole_set.path / four / "findings" / "skew.parquet").write_bytes(b"PAR1 no more")
    found = tk.open_set(whole_set.path)
    result = invoke("report", found.path)
    refused(result, "2 of 6 volumes left out", error=PartialError)
    page = Page(found.path / "report.html")
    text = page.text["set_cautions"]
    assert re.search(r"2.volumes missing or damaged", text)
    assert re.search(r"2.volumes not analysed", text)
    assert all(f"{name}: " in text for name in (one, two, three, four))
    shown = {row[0]: row for row in page.rows["set_volumes"] if row[0] in whole_set}
    assert {*shown} == {three, four, *others}
    assert all(fmt.MISSING in shown[name] for name in (three, four))
    order = [*page.text]
    assert order.index("set_cautions") == 1


def test_results_of_before_are_called_outdated(whole_set: tk.Set) -> None:
    name = [*whole_set][2]
    volume = whole_set[name]
    volume.classify(role=f"{volume.info.devices[0].device}=swap")
    text = page_of(whole_set).text["set_cautions"]
    assert re.search(r"1.volume outdated", text)
    assert f"{name}: " in text
    assert all(f"run: tracekit {stage} " in text for stage in ("analyze", "recommend"))


def thousand(whole_set: tk.Set, place: Path) -> Iterator[str]:
    """Make a set of 1,000 volumes of the results of few; yield their names."""
    sources = [one.path for one in whole_set.values()]
    for number in range(1000):
        source, name = sources[number % len(sources)], f"volume-{number:04}"
        (place / name / "findings").mkdir(parents=True)
        for file in ("trace.json", *(f"findings/{one}.parquet" for one in FINDINGS)):
            os.link(source / file, place / name / file)
        yield name


FINDINGS = ("volume_totals", "skew", "sequentiality", "distribution", "activity")


@pytest.mark.slow
def test_a_thousand_volumes_are_a_page_of_five_megabytes(whole_set: tk.Set, tmp_path: Path) -> None:
    names = [*thousand(whole_set, tmp_path / "many")]
    found = tk.add_to_set(tmp_path / "many")
    report = found.report().path
    assert report.stat().st_size < 5_000_000
    assert [row[0] for row in Page(report).rows["set_volumes"]][1:1001] == names
