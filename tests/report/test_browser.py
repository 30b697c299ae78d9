"""The report as a reader sees it: quiet, self-contained, readable in every size and scheme."""

import itertools
import json
import math
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pytest

from tracekit.report.formatting import data, duration, printable
from tracekit.report.page import report_side_by_side
from tracekit.units import parse_size

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
Scheme = Literal["light", "dark"]
DESKTOP = (1280, 900)
PHONE = (375, 812)
# An A4 sheet within Chromium's margins.
PAPER = (718, 1047)


UNFOLD = "document.querySelectorAll('details.part').forEach((e) => { e.open = true })"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))


Opened = tuple[Any, list[str], list[str]]
Open = Callable[..., AbstractContextManager[Opened]]


@pytest.fixture
def opened(browser: Any, hostile: Path) -> Open:
    """Return how to open the hostile report for a while."""

    @contextmanager
    def opened(
        size: tuple[int, int] = DESKTOP, scheme: Scheme = "light", path: Path = hostile
    ) -> Iterator[Opened]:
        """Yield the page, what it printed to the console, and the addresses that it asked for."""
        viewport = {"width": size[0], "height": size[1]}
        with browser.new_context(viewport=viewport, color_scheme=scheme) as context:
            page = context.new_page()
            said: list[str] = []
            asked: list[str] = []
            page.on("console", lambda message: said.append(message.text))
            page.on("pageerror", lambda error: said.append(str(error)))
            page.on("request", lambda request: asked.append(request.url))
            page.goto(path.as_uri())
            page.evaluate(UNFOLD)
            yield page, said, asked

    return opened


pytestmark = [
    pytest.mark.browser,
    pytest.mark.xdist_group("report"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]

# For each visible text: its contrast with the first opaque background behind it. SVG text has its
# colour in `fill`.
LOW_CONTRAST = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let count = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.getClientRects().length) continue;
    if (element.tagName === "SCRIPT" || element.tagName === "STYLE") continue;
    const style = getComputedStyle(element);
    const own = element instanceof SVGElement ? style.fill : style.color;
    const [a, b] = [light(parse(own)), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    count += 1;
    if (ratio < 4.5) found.push(`${ratio.toFixed(2)} ${walker.currentNode.textContent.trim()}`);
  }
  return {count, found};
}"""

# Elements that stick out of the page, unless they are in a box that scrolls by itself.
STICKING_OUT = """() => [...document.querySelectorAll("body *")]
  .filter((e) => e.getClientRects().length && !e.closest(".scroll, pre, .skip, svg"))
  .filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5)
  .map((e) => e.outerHTML.slice(0, 80))"""

# Words that go on in a second line, but for those that are longer than any English one.
BROKEN_WORDS = """() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!node.parentElement.closest("th, td, p, li, h1, h2, h3")) continue;
    for (const word of node.textContent.matchAll(/[A-Za-z]{2,16}/g)) {
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const tops = new Set([...range.getClientRects()].map((r) => Math.round(r.top)));
      if (tops.size > 1) found.push(word[0]);
    }
  }
  return found;
}"""

SMALL_TEXT = """() => [...document.querySelectorAll("figure svg text")]
  .filter((e) => e.getClientRects().length && e.textContent.trim())
  .map((e) => {
    const svg = e.ownerSVGElement;
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    return parseFloat(getComputedStyle(e).fontSize) * scale;
  })"""


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_quiet_and_readable(
    opened: Open, hostile: Path, size: tuple[int, int], scheme: Scheme
) -> None:
    with opened(size=size, scheme=scheme) as (page, said, asked):
        # WHEN all that is folded away is opened
        page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true })")
        # THEN nothing complains, nothing is fetched, nothing hostile ran
        assert said == []
        assert [address for address in asked if not address.startswith("data:")] == [
            hostile.as_uri()
        ]
        # AND nothing makes the page scroll sideways
        assert page.evaluate("document.documentElement.scrollWidth") == size[0]
        assert page.evaluate(STICKING_OUT) == []
        # AND no word goes on in a second line
        assert page.evaluate(BROKEN_WORDS) == []
        # AND every text stands out from what is behind it
        contrast = page.evaluate(LOW_CONTRAST)
        assert contrast["count"] > 500
        assert contrast["found"] == []
        # AND the figures' labels are no smaller than small print
        assert min(page.evaluate(SMALL_TEXT)) >= 10.5


def violations(page: Any) -> list[tuple[str, str]]:
    """Return what axe-core finds but contrast, with all unfolded and every figure explored."""
    from axe_playwright_python.sync_playwright import Axe

    page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true })")
    page.evaluate(
        "document.querySelectorAll('.explore').forEach((e) => {"
        " if (e.getAttribute('aria-pressed') === 'false') e.click() })"
    )
    rules = {"color-contrast": {"enabled": False}}
    response = Axe().run(page, options={"rules": rules}).response
    assert len(response["passes"]) > 20
    return [(one["id"], one["nodes"][0]["html"]) for one in response["violations"]]


def test_axe_finds_nothing(opened: Open) -> None:
    with opened() as (page, _, _):
        assert violations(page) == []
        assert page.evaluate("document.querySelectorAll('figure canvas').length") > 10


@pytest.fixture(scope="module")
def beside(hostile: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of a hostile trace beside its copy."""
    place = tmp_path_factory.mktemp("beside")
    copy = shutil.copytree(hostile.parent / "<b>folder", place / "<i>copy")
    return report_side_by_side([hostile.parent / "<b>folder", copy], place / "page.html").path


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_traces_side_by_side_are_explored(
    opened: Open, beside: Path, size: tuple[int, int]
) -> None:
    for scheme in ("light", "dark"):
        with opened(size=size, scheme=scheme, path=beside) as (page, said, _):
            assert page.evaluate(LOW_CONTRAST)["found"] == []
            # GIVEN all figures being explored, each with curves of both
            assert violations(page) == []
            assert len(shown(page)) >= 5
            # WHEN a key zooms in THEN the other figure over time shows the same part
            page.locator("#figure-throughput .uplot").focus()
            page.keyboard.press("+")
            page.wait_for_timeout(50)
            over = [one for one in shown(page).values() if one["time"]]
            assert len(over) == 2
            assert all(one["low"] > one["whole"][0] for one in over)
            # AND nothing complains, nothing hostile ran, nothing sticks out
            assert said == []
            assert page.evaluate("document.documentElement.scrollWidth") == size[0]
            assert page.evaluate(STICKING_OUT) == []


def visible_variants(page: Any) -> set[str]:
    variants: list[str] = page.evaluate(
        "[...document.querySelectorAll('#totals figure > svg')]"
        ".filter((e) => e.getClientRects().length).map((e) => e.getAttribute('class'))"
    )
    return set(variants)


@pytest.mark.parametrize(("size", "variant"), [(DESKTOP, "wide"), (PHONE, "narrow")])
def test_each_screen_gets_its_own_figure(opened: Open, size: tuple[int, int], variant: str) -> None:
    with opened(size=size) as (page, _, _):
        assert visible_variants(page) == {variant}


def test_the_scheme_changes_the_colours_of_the_figures(opened: Open) -> None:
    schemes: tuple[Scheme, ...] = ("light", "dark")
    colours = {}
    for scheme in schemes:
        with opened(scheme=scheme) as (page, _, _):
            colours[scheme] = page.evaluate(
                "getComputedStyle(document.querySelector('#totals .wide .fill-blue')).fill"
            )
    assert colours == {"light": "rgb(0, 114, 178)", "dark": "rgb(79, 176, 238)"}


def test_the_coverage_is_chosen_without_a_script(opened: Open) -> None:
    with opened() as (page, _, _):
        hottest, start = (page.locator(f"#capacity .panel.{name}") for name in ("hottest", "start"))
        assert hottest.is_visible()
        assert not start.is_visible()
        page.get_by_role("radio", name="from the start of the role").check()
        assert start.is_visible()
        assert not hottest.is_visible()


def test_evidence_is_folded_below_its_finding(opened: Open, full: Path) -> None:
    with opened() as (page, _, _):
        page.goto(full.as_uri())
        heads = page.locator("details.part > summary")
        assert heads.count() > 15
        assert not page.locator("details.part[open]").count()
        assert "the file system saves 38" in heads.first.inner_text()
        # WHEN the contents lead to a part, or the address to a figure, THEN it is open
        page.click("nav a[href='#latency']")
        assert page.locator("#latency > details").evaluate("(e) => e.open")
        page.goto(f"{full.as_uri()}#figure-heat-map-0")
        assert page.locator("#figure-heat-map-0").is_visible()


def test_the_contents_are_folded_on_a_phone_only(opened: Open) -> None:
    for size, is_open in ((DESKTOP, True), (PHONE, False)):
        with opened(size=size) as (page, _, _):
            assert page.locator(".contents details").evaluate("(e) => e.open") is is_open


@pytest.mark.parametrize(
    ("place", "name", "head"),
    [
        ("#totals", "traffic-totals", "role,request_count,"),
        ("#sizes figure", "traffic-sizes", "role,operation,"),
        ("#figure-traffic-throughput", "traffic-throughput", "window_number,"),  # packed
    ],
)
def test_a_table_can_be_downloaded(
    opened: Open, hostile: Path, tmp_path: Path, place: str, name: str, head: str
) -> None:
    with opened() as (page, said, _):
        page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true })")
        with page.expect_download() as download:
            page.locator(f"{place} a.download").click()
        download.value.save_as(tmp_path / "table.csv")
        assert download.value.suggested_filename == f"{name}.csv"
        assert said == []
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert lines[0].startswith(head)
    table = hostile.parent / f"<b>folder/findings/{name.rpartition('-')[2]}.parquet"
    assert len(lines) == 1 + len(read_table(table))


# What each figure that can be explored shows of its x axis, and whether it has the trace's time.
SHOWN = """() => [...figures].filter(([, plot]) => plot).map(([figure, plot]) => ({
  name: figure.id, time: plot.isOverTime, low: plot.scales.x.min, high: plot.scales.x.max,
  whole: plot.whole, values: plot.data.slice(1).map((ys) => ys[plot.cursor.idx]),
  written: [...plot.root.querySelectorAll(".u-value")].map((e) => e.textContent),
}))"""


THROUGHPUT = "figure-traffic-throughput"


def shown(page: Any) -> dict[str, Any]:
    return {one["name"]: one for one in page.evaluate(SHOWN)}


def zoom(page: Any) -> None:
    """Drag over the second quarter of a figure over time."""
    box = page.locator(f"#{THROUGHPUT} .u-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60, steps=4)
    page.mouse.up()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 80)


def test_figures_over_time_are_zoomed_together(opened: Open) -> None:
    with opened() as (page, said, _):
        # GIVEN a figure over time that is explored: the others over time are, too
        page.locator(f"#{THROUGHPUT}").get_by_role("button", name="Explore").click()
        whole = shown(page)
        assert len(whole) > 2
        assert all(one["time"] for one in whole.values())
        # WHEN a part of it is dragged over
        zoom(page)
        # THEN all that have this part show it, and values are written where the pointer is
        part = shown(page)[THROUGHPUT]
        low, high = whole[THROUGHPUT]["whole"]
        assert part["low"] == pytest.approx(low + (high - low) / 4, rel=0.02)
        assert part["high"] == pytest.approx(low + (high - low) / 2, rel=0.02)
        for name, one in shown(page).items():
            end = one["whole"][1]
            wanted = (part["low"], min(part["high"], end)) if part["low"] < end else one["whole"]
            assert (one["low"], one["high"]) == pytest.approx(wanted), name
        assert "–" not in part["written"]  # noqa: RUF001 - what is written where there is no value
        assert said == []


def test_the_address_keeps_the_part_of_time_and_a_key_shows_all(opened: Open) -> None:
    with opened() as (page, said, _):
        page.locator(f"#{THROUGHPUT}").get_by_role("button", name="Explore").click()
        zoom(page)
        part, address = shown(page)[THROUGHPUT], page.url
        page.goto("about:blank")
        page.goto(address)
        assert shown(page)[THROUGHPUT]["low"] == pytest.approx(part["low"], rel=1e-6)
        # AND paper shows the figures as they were drawn
        page.emulate_media(media="print")
        assert page.locator(f"#{THROUGHPUT} svg.wide").is_visible()
        assert not page.locator(f"#{THROUGHPUT} .explored").is_visible()
        page.emulate_media(media="screen")
        assert not page.locator(f"#{THROUGHPUT} svg.wide").is_visible()
        # AND a key shows all
        page.locator(f"#{THROUGHPUT} .uplot").focus()
        page.keyboard.press("0")
        page.wait_for_timeout(50)
        assert all((one["low"], one["high"]) == tuple(one["whole"]) for one in shown(page).values())
        assert said == []


def test_the_address_keeps_the_rows_of_a_heat_map_too(opened: Open) -> None:
    name = "figure-heat-map-0"
    part = f"(() => figures.get(document.getElementById('{name}')).scales.y)()"
    with opened() as (page, said, _):
        page.locator(f"#{name}").get_by_role("button", name="Explore").click()
        page.locator(f"#{name} .uplot").focus()
        for key in ("i", "i", "+"):
            page.keyboard.press(key)
        page.wait_for_timeout(50)
        assert re.search(rf"#{name}:t=\d+-\d+,y=\d+-\d+$", page.url)
        wanted, low, address = page.evaluate(part), shown(page)[name]["low"], page.url
        page.goto("about:blank")
        page.goto(address)
        page.wait_for_timeout(50)
        found = page.evaluate(part)
        assert [found[end] for end in ("min", "max")] == pytest.approx(
            [wanted[end] for end in ("min", "max")], abs=1
        )
        assert shown(page)[name]["low"] == pytest.approx(low, abs=1)
        # AND all of it needs no part in the address
        page.locator(f"#{name} .uplot").focus()
        page.keyboard.press("0")
        page.wait_for_timeout(50)
        assert page.url.endswith(f"#{name}")
        assert said == []


def test_sizes_have_ticks_of_powers_of_two_and_the_answer_stays_marked(opened: Open) -> None:
    with opened() as (page, said, _):
        # GIVEN each figure over sizes, explored
        found = 0
        for figure in page.locator("figure[data-content]:visible").all():
            content = json.loads(figure.get_attribute("data-content") or "")
            if content["x"]["kind"] != "data":
                continue
            figure.locator(".explore").click()
            name = figure.get_attribute("id")
            ticks = page.evaluate(f"figures.get(document.getElementById('{name}')).axes[0]._splits")
            # THEN its ticks are multiples of a power of two, few for their distance
            step = min(high - low for low, high in itertools.pairwise(ticks))
            assert math.log2(step).is_integer(), ticks
            assert all(tick % step == 0 for tick in ticks), ticks
            assert 2 <= len(ticks) <= 12, ticks
            if str(name).startswith("figure-capacity"):
                found += 1
                (mark,) = content["marks"]
                assert mark["text"].startswith("the answer, ")
                (low, *_, high) = content["x"]["ends"]
                assert low <= mark["x"] <= high
            figure.locator(".explore").click()
        assert found
        assert said == []


def read_table(file: Path) -> Any:
    return pd.read_parquet(file)


# The cells of a heat map: the ends of their row, the number of their window, and what they hold.
CELLS = """(name) => {
  const { content } = figures.get(document.getElementById(name));
  return [content.step, content.rows.flatMap(([low, high, columns, ...numbers]) => columns.map(
    (column, at) => [low, high, column, numbers.map((one) => one[at])]))];
}"""


def cells(page: Any, name: str) -> tuple[int, dict[tuple[int, int, int], list[int]]]:
    """Return the length of a window, and what the cells of a heat map hold by row and window."""
    page.locator(f"#{name}").get_by_role("button", name="Explore").click()
    step, found = page.evaluate(CELLS, name)
    return step, {(low, high, column): numbers for low, high, column, numbers in found}


def point_at(page: Any, name: str, *, x: float, y: float) -> str:
    """Move the pointer to a place of a figure in its own units; return what is said there."""
    place = f"(() => {{ const p = figures.get(document.getElementById('{name}'));"
    left, top = page.evaluate(f"{place} return [p.valToPos({x}, 'x'), p.valToPos({y}, 'y')] }})()")
    page.locator(f"#{name} .u-over").hover(position={"x": left, "y": top})
    return str(page.locator(f"#{name} output").inner_text()).replace("\xa0", " ")


def test_the_cells_of_addresses_are_those_of_the_requests(opened: Open, hostile: Path) -> None:
    name = "figure-heat-map-0"
    requests = read_table(hostile.parent / "<b>folder/requests.parquet")
    moved = requests[requests["operation"].isin(["read", "write"]) & (requests["length_bytes"] > 0)]
    with opened() as (page, said, _):
        step, found = cells(page, name)
        places = moved["sector"] * 512
        for (low, high, column), numbers in found.items():
            is_here = (places >= low) & (places < high) & (moved["queue_ns"] // step == column)
            assert numbers == [is_here.sum(), moved["length_bytes"][is_here].sum()]
        assert sum(count for count, _ in found.values()) == len(moved)
        # WHEN the pointer is in a cell THEN its ranges and numbers are said
        (low, high, column), (count, length_bytes) = max(found.items(), key=lambda one: one[1])
        text = point_at(page, name, x=(column + 0.5) * step, y=(low + high) / 2)
        assert f": {count} requests, {length_bytes >> 10} KiB;" in text
        # AND with the keyboard, too: the cell on its left, and back
        page.locator(f"#{name} .uplot").focus()
        page.keyboard.press("Shift+ArrowLeft")
        assert page.locator(f"#{name} output").inner_text() != text
        page.keyboard.press("Shift+ArrowRight")
        assert page.locator(f"#{name} output").inner_text().replace("\xa0", " ") == text
        # AND a part of the addresses is seen until all is, whatever time the figures show
        page.keyboard.press("i")
        zoom(page)
        ends = f"(() => {{ const {{ min, max }} = figures.get(document.getElementById('{name}'))"
        ends += ".scales.y; return max - min })()"
        assert page.evaluate(ends) == pytest.approx((max(end for _, end, _ in found)) / 2)
        page.locator(f"#{name} .uplot").focus()
        page.keyboard.press("0")
        page.wait_for_timeout(50)
        assert page.evaluate(ends) == max(end for _, end, _ in found)
        assert said == []


@pytest.mark.parametrize(
    ("name", "table", "begin"),
    [
        ("figure-latency-latency-heat-map", "requests", "queue_ns"),
        ("figure-replay-heat-map-0", "replays/file/completions", "submit_ns"),
    ],
)
def test_the_cells_of_times_are_those_of_the_requests(
    opened: Open, hostile: Path, name: str, table: str, begin: str
) -> None:
    done = read_table(hostile.parent / f"<b>folder/{table}.parquet").dropna(subset=[begin])
    took = done["complete_ns"] - done[begin]
    with opened() as (page, said, _):
        step, found = cells(page, name)
        for (low, high, column), numbers in found.items():
            is_here = (took >= low) & (took < high) & (done[begin] // step == column)
            assert numbers == [is_here.sum()]
            assert high - low <= max(1, low / 4)
        assert sum(count for (count,) in found.values()) == len(done)
        # AND the pointer reads them on a logarithmic scale
        (low, high, column), (count,) = max(found.items(), key=lambda one: one[1])
        text = point_at(page, name, x=(column + 0.5) * step, y=(low + high) / 2)
        assert text.endswith(f": {count} requests")
        assert "µs to " in text.partition(",")[0]
        assert said == []


def listed(page: Any, name: str) -> dict[str, int]:
    """Return the files that stand under a heat map, and how many requests each has."""
    rows = page.locator(f"#{name} .files tr").all()
    texts = [[cell.inner_text() for cell in row.locator("td").all()] for row in rows]
    return {path: int(count.partition(" ")[0]) for path, count in texts}


def test_the_files_are_those_of_the_addresses_that_are_seen(opened: Open, hostile: Path) -> None:
    name = "figure-heat-map-0"
    folder = hostile.parent / "<b>folder"
    requests = read_table(folder / "requests.parquet")
    moved = requests[requests["operation"].isin(["read", "write"]) & (requests["length_bytes"] > 0)]
    extents = read_table(folder / "file_extents.parquet")

    def of_files(low: float, high: float) -> dict[str, int]:
        here = moved["sector"][moved["sector"].between(low // 512, high // 512 - 1)]
        counts = dict.fromkeys(map(printable, extents["path"]), 0)
        for one in extents.itertuples():
            is_in = here.between(one.first_sector, one.first_sector + one.sectors - 1)
            counts[printable(one.path)] += int(is_in.sum())
        rest = len(here) - sum(counts.values())
        found = {path: count for path, count in counts.items() if count}
        return {**found, "other files, or not known": rest}

    with opened() as (page, said, _):
        _, found = cells(page, name)
        rows = sorted({(low, high) for low, high, _ in found})
        # THEN names are text, and with the rest their requests are all that are seen
        assert listed(page, name) == of_files(0, 1 << 40)
        assert "/<script>alert(1)</script>" in listed(page, name)
        # AND in a part of the addresses those of the rows that are seen
        page.locator(f"#{name} .uplot").focus()
        for key in ("i", *["ArrowDown"] * 4):
            page.keyboard.press(key)
        low, high = page.evaluate(
            f"(() => {{ const {{ min, max }} = figures.get(document.getElementById('{name}'))"
            ".scales.y; return [min, max] })()"
        )
        seen = [one for one in rows if one[0] < high and one[1] > low]
        assert 0 < len(seen) < len(rows)
        assert listed(page, name) == of_files(seen[0][0], seen[-1][1])
        # AND the pointer names those of a row
        (low, high), *_ = seen
        text = point_at(page, name, x=1, y=(low + high) / 2)
        assert "; most requests there, at any time: /" in text
        assert said == []


def test_bars_are_read(opened: Open, hostile: Path) -> None:
    requests = read_table(hostile.parent / "<b>folder/requests.parquet")
    kinds = ["role", "operation", "is_preflush", "is_fua", "is_meta"]
    counts = sorted(requests.groupby(kinds, observed=True).size(), reverse=True)
    with opened() as (page, said, _):
        bars = page.locator("#figure-traffic-mix svg.wide .bar")
        # THEN each says its number without a script
        texts = bars.locator("title").all_text_contents()
        assert [int(text.rpartition(": ")[2]) for text in texts] == counts
        assert texts[0].startswith("write, file system: ")
        # AND the arrow keys read one after the other, as the pointer does
        page.locator("#figure-traffic-mix svg.wide").focus()
        read = page.locator("#figure-traffic-mix > output")
        for key, at in (("ArrowRight", 0), ("ArrowDown", 1), ("ArrowLeft", 0), ("ArrowUp", -1)):
            page.keyboard.press(key)
            assert read.inner_text() == texts[at]
        bars.nth(2).hover()
        assert read.inner_text() == texts[2]
        # AND every figure of bars has texts, also where names are hostile
        for figure in page.locator("figure:has(.bar)").all():
            assert figure.locator("svg.narrow .bar title").count() > 0
        assert page.locator("figure:has(.bar)").count() == 3
        assert said == []


def test_the_slider_says_the_answer_of_each_capacity(opened: Open, hostile: Path) -> None:
    advice = json.loads((hostile.parent / "<b>folder" / "recommendation.json").read_text())
    with opened() as (page, said, _):
        slider = page.locator(".slider input")
        answer = advice["answer"]
        assert f"With {data(answer['capacity_bytes'])}: " in page.locator(".slider").inner_text()
        for at in (0, len(advice["answers"]) - 1):
            slider.fill(str(at))
            one = advice["answers"][at]
            text = page.locator(".slider output").inner_text()
            for shown in (data(one["capacity_bytes"]), duration(one["elapsed_ns"])):
                assert shown in text
        assert said == []


def test_every_figure_that_can_be_explored_is(opened: Open) -> None:
    for scheme in ("light", "dark"):
        with opened(scheme=scheme) as (page, said, _):
            for button in page.locator("figure .explore:visible").all():
                if button.get_attribute("aria-pressed") == "false":
                    button.click()
            assert len(shown(page)) > 10
            assert page.evaluate("[...figures.values()].every((p) => !p || p.ctx)")
            assert said == []


def test_tables_are_sorted(opened: Open) -> None:
    with opened() as (page, said, _):
        page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true })")
        source = page.locator("#figure-traffic-sizes .source")
        heads = source.locator("thead th").all_inner_texts()
        head = source.locator("thead th").nth(heads.index("length bytes"))

        def lengths() -> list[int]:
            cells = source.locator(f"tbody td:nth-child({heads.index('length bytes') + 1})")
            return [
                parse_size(text.replace("\xa0", ""), option="length")
                for text in cells.all_inner_texts()
            ]

        # WHEN a column's head is chosen THEN its rows are in the order of what they say
        before = lengths()
        head.click()
        assert lengths() == sorted(before)
        head.focus()
        page.keyboard.press("Enter")
        assert lengths() == sorted(before, reverse=True)
        assert head.get_attribute("aria-sort") == "descending"
        assert said == []


def test_a_long_table_is_searched(opened: Open) -> None:
    with opened() as (page, said, _):
        page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true })")
        field = page.locator("input.search:visible").first
        rows = field.locator("xpath=following::table[1]/tbody/tr")
        texts = rows.all_inner_texts()
        assert len(texts) > 12
        # WHEN two words are typed THEN the rows that have both are left
        field.fill("START journal")
        seen = [row.inner_text() for row in rows.all() if row.is_visible()]
        assert seen == [text for text in texts if "journal" in text and "start" in text]
        assert 0 < len(seen) < len(texts)
        field.fill("")
        assert rows.locator("visible=true").count() == len(texts)
        assert said == []


def test_paper_is_light_and_shows_both_coverages(opened: Open) -> None:
    with opened(scheme="dark") as (page, _, _):
        page.emulate_media(media="print", color_scheme="dark")
        assert page.locator("#capacity .panel.start").is_visible()
        assert (
            page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        )


def test_paper_cuts_nothing_off(opened: Open) -> None:
    with opened(size=PAPER) as (page, _, _):
        page.emulate_media(media="print")
        assert page.evaluate("document.documentElement.scrollWidth") == PAPER[0]
        assert page.evaluate(BROKEN_WORDS) == []


def test_the_answer_and_two_figures_are_on_the_first_sheet(opened: Open, full: Path) -> None:
    with opened(size=PAPER) as (page, _, _):
        page.goto(full.as_uri())
        page.emulate_media(media="print")
        figures = page.locator("figure svg:visible")
        boxes = [figures.nth(number).bounding_box() for number in range(2)]
        assert max(box["y"] + box["height"] for box in boxes if box) <= PAPER[1]
