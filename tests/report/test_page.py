"""The whole page, and the commands that make it again."""

import base64
import hashlib
import html
import json
import re
from difflib import unified_diff
from html.parser import HTMLParser
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.command_line import invoke, succeed
from tests.report.folder import make_folder, page_of, section_of
from tests.report.golden import GOLDEN, full_folder, text_of
from tests.traces import written
from tracekit.errors import InputError
from tracekit.report.inputs import Inputs
from tracekit.report.page import SECTIONS, report
from tracekit.report.section import Missing
from tracekit.report.sections import locality, traffic
from tracekit.report.sections.front import reproduce, warnings
from tracekit.store import TraceFolder

# One worker builds the pages that most of these look at.
pytestmark = pytest.mark.xdist_group("report")

VOID = {"meta", "input", "br", "img", "link"}


class Outline(HTMLParser):
    """Collects tags, ids and attributes, and checks that every element is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self._note(tag, attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def _note(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]


def outline(text: str) -> Outline:
    parser = Outline()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


def test_the_text_of_the_page_is_the_golden_one(page: str) -> None:
    lines = text_of(page).splitlines()
    # THEN every sentence is as it was; `python -m tests.report.golden` renews the file
    golden = GOLDEN.read_text(encoding="utf-8").splitlines()
    assert list(unified_diff(golden, lines, "golden.txt", "the page", lineterm="", n=0)) == []


def test_the_sections_are_those_of_the_contents_the_answer_first(page: str) -> None:
    sections = re.findall(r'<section id="(\w+)"', page[page.index("<body>") :])
    # Whose blocks and requests these are is not known here.
    unknown = (locality.files_of_blocks, traffic.cgroups)
    assert sections == [build.__name__ for build in SECTIONS if build not in unknown]
    assert re.findall(r'<li><a href="#(\w+)">', page) == sections
    assert page.index("<h1>") < page.index("<h2>")


def test_html_is_well_formed_and_loads_nothing_from_elsewhere(page: str) -> None:
    found = outline(page)
    assert len(found.ids) == len(set(found.ids))
    assert {link[1:] for link in found.links if link.startswith("#")} <= set(found.ids)
    assert all(link.startswith(("#", "data:")) for link in found.links)
    assert found.tags.isdisjoint({"link", "iframe", "object", "embed", "base", "form"})


def test_the_policy_allows_this_style_and_this_script_and_no_other(page: str) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        contents = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert len(contents) == 1
        digest = base64.b64encode(hashlib.sha256(contents[0].encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy[1]
    assert policy[1].startswith("default-src 'none'")
    assert "unsafe" not in policy[1]
    assert "style" not in outline(page).attributes


def test_every_query_is_named_and_can_be_read(page: str) -> None:
    assert "<code>analyzers/traffic/totals.sql</code>" in page
    assert "-- question: How much traffic does each role get" in page
    assert "<code>simulations/placement.parquet of tracekit recommend</code>" in page


def test_counts_have_no_decimal_point(page: str) -> None:
    cells = re.findall(r'<td class=(?:"number"|n)>([^<]*)</td>', page)
    assert cells
    assert not [cell for cell in cells if re.search(r"\.0(?!\d)(?!%)", cell.replace("\xa0", " "))]


def test_names_from_the_trace_cannot_inject_markup(hostile: Path, page: str) -> None:
    text = hostile.read_text()
    # THEN the page has no other elements and attributes than one without hostility
    assert outline(text).tags <= outline(page).tags
    assert outline(text).attributes <= outline(page).attributes
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>alert" not in text
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", text)


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ((), {"analyze", "recommend", "replay"}),
        (("classify", "analyze"), {"recommend", "replay"}),
        (("classify", "analyze", "replay"), {"recommend"}),
    ],
)
def test_missing_stages_are_known(
    stages: tuple[str, ...], expected: set[str], tmp_path: Path
) -> None:
    inputs = Inputs(make_folder(tmp_path / "t", stages=stages))
    built = [build(inputs) for build in SECTIONS]
    assert {part.stage for part in built if isinstance(part, Missing)} == expected


def test_missing_stages_are_named(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "my trace", stages=())
    result = report(folder, tmp_path / "report.html")
    names = ("analyze", "recommend", "replay")
    assert set(result.missing) == {f"tracekit {name} 'my trace'" for name in names}
    text = (tmp_path / "report.html").read_text()
    for name in names:
        assert f"<code>tracekit {name} &#39;my trace&#39;</code>" in text
    outline(text)


def test_nothing_lost_is_reported(whole: TraceFolder) -> None:
    assert whole.content["warnings"] == []
    text = page_of(whole, warnings)
    assert "Nothing was lost, dropped or guessed: all 1,200 records were read and matched." in text


def test_losses_are_reported_with_their_numbers(parsed: TraceFolder) -> None:
    loss = {"has_numbers": True, "sequence_gaps": 3, "lost_records": 41_000}
    parsed.save_info(loss={**loss, "unmatched": {"issue": 7}})
    text = page_of(parsed, warnings)
    assert '<td>records lost at those gaps</td><td class="number">41,000</td>' in text
    assert '<td>events without their counterpart: issue</td><td class="number">7</td>' in text
    assert "has numbers" not in text
    assert "Nothing was lost" not in text


def test_a_broken_table_is_named_and_leaves_the_old_report(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "trace")
    old = '<meta name="generator" content="tracekit 0">the old one'
    output = written(tmp_path / "report.html", old)
    folder.table("findings/totals").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(InputError, match=r"findings/totals\.parquet is not a readable"):
        report(folder, output)
    assert output.read_text() == old
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "trace"]


def test_the_command_prints_the_path(parsed: TraceFolder, tmp_path: Path) -> None:
    result = succeed("report", parsed.path, "-o", tmp_path / "r.html")
    assert result.stdout == f"{tmp_path / 'r.html'}\n"
    assert "tracekit analyze trace" in result.stderr
    assert (tmp_path / "r.html").is_file()


def test_the_command_writes_into_the_trace_unless_told_otherwise(parsed: TraceFolder) -> None:
    told = json.loads(invoke("report", parsed.path, "--json").stdout)
    assert Path(told["report"]) == parsed.path / "report.html"
    assert Path(told["report"]).is_file()


def commands(folder: TraceFolder) -> list[str]:
    return list(section_of(reproduce, TraceFolder(folder.path)).parts["commands"])


def test_replays_and_comparisons_are_reported_as_they_were_asked(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "a trace", stages=("classify", "analyze"))
    for words in (
        ["replay", "--engine", "null", "--pace", "fast", "--name", "b", "--repeat", "2", "--json"],
        ["replay", "--engine", "null", "--max-idle", "1ms", "--no-keep"],
    ):
        succeed(words[0], folder.path, *words[1:])
    succeed("compare", folder.path, "trace", "b")
    told = [line for line in commands(folder) if "replay" in line or "compare" in line]
    # THEN repeats are one command, and what only chose the output is left out
    assert told == [
        "tracekit replay 'a trace' --engine null --pace fast --name b --repeat 2",
        "tracekit replay 'a trace' --engine null --max-idle 1ms",
        "tracekit compare 'a trace' trace b",
    ]


def test_a_replay_of_no_command_is_reported_by_its_summary(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "t")
    assert [line for line in commands(folder) if line.startswith("tracekit replay")]


def test_each_query_runs_as_it_is_shown(
    page: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # GIVEN the page with every section WHEN the queries that it shows are run by `tracekit sql`
    folder, place = full_folder(tmp_path_factory), tmp_path_factory.mktemp("sql")
    begin, between = (
        r"<span>Source</span> <code>analyzers/(?:\w+/)*(\w+)\.sql</code>",
        r"<summary>The query</summary>.*?",
    )
    shown = re.findall(rf"{begin}.*?{between}<pre[^>]*><code>(.*?)</code></pre>", page, re.S)
    assert len(dict(shown)) > 20
    for name, text in dict.fromkeys(shown):
        (place / "query.sql").write_text(html.unescape(text))
        made, table = place / f"{name}.parquet", folder.table(f"findings/{name}")
        result = invoke(
            "sql", folder.path, "-f", place / "query.sql", "-o", made, "--format", "parquet"
        )
        assert result.exit_code == 0, (name, result.exception)
        # THEN a finding is what `analyze` made
        if table.exists():
            assert pq.read_table(made).to_pylist() == pq.read_table(table).to_pylist()
        made.unlink()
