"""The whole page, and the commands that make it again."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.command_line import invoke, succeed
from tests.report.folder import ALL_STAGES, HOSTILE, make_folder, page_of, section_of
from tests.traces import written
from tracekit.errors import InputError
from tracekit.report.page import report
from tracekit.report.sections.front import reproduce
from tracekit.store import TraceFolder

# One worker builds the page that most of these look at.
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


@pytest.fixture(scope="module")
def text(whole: TraceFolder, tmp_path_factory: pytest.TempPathFactory) -> str:
    output = tmp_path_factory.mktemp("page") / "report.html"
    assert report(whole, output).missing == {}
    return output.read_text()


def test_the_answer_comes_first(text: str) -> None:
    body = text[text.index("<body>") :]
    assert "<h1>Place 2 MiB of the file system.</h1>" in body
    sections = re.findall(r'<section id="(\w+)"', body)
    assert sections[:3] == ["answer", "warnings", "capacity"]
    assert sections[-2:] == ["provenance", "reproduce"]
    # and every section is in the contents
    assert re.findall(r'<li><a href="#(\w+)">', text) == sections


def test_html_is_well_formed_and_loads_nothing_from_elsewhere(text: str) -> None:
    found = outline(text)
    assert len(found.ids) == len(set(found.ids))
    assert {link[1:] for link in found.links if link.startswith("#")} <= set(found.ids)
    assert all(link.startswith(("#", "data:")) for link in found.links)
    assert found.tags.isdisjoint({"link", "iframe", "object", "embed", "base", "form"})


def test_the_policy_allows_this_style_and_this_script_and_no_other(text: str) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        contents = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert len(contents) == 1
        digest = base64.b64encode(hashlib.sha256(contents[0].encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy[1]
    assert policy[1].startswith("default-src 'none'")
    assert "unsafe" not in policy[1]
    assert "style" not in outline(text).attributes


def test_every_query_is_named_and_can_be_read(text: str) -> None:
    assert "<code>analyzers/traffic/totals.sql</code>" in text
    assert "-- question: How much traffic does each role get" in text
    assert "<code>simulations/placement.parquet of tracekit recommend</code>" in text


def test_counts_have_no_decimal_point(text: str) -> None:
    cells = re.findall(r'<td class="number">([^<]*)</td>', text)
    assert cells
    assert not [cell for cell in cells if re.search(r"\.0(?!\d)(?! %)", cell.replace("\xa0", " "))]


def test_a_folder_gives_the_same_bytes(whole: TraceFolder, text: str, tmp_path: Path) -> None:
    report(TraceFolder(whole.path), tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text() == text


def test_names_from_the_trace_cannot_inject_markup(tmp_path: Path) -> None:
    warning = {"code": HOSTILE[0], "message": HOSTILE[1], "advice": HOSTILE[2]}
    hostile = make_folder(tmp_path / "<b>folder", processes=HOSTILE, warnings=[warning])
    guess = {"what": HOSTILE[0], "value": HOSTILE[1], "evidence": HOSTILE[3]}
    hostile.save_info(inferences=[guess], hotness={HOSTILE[0]: [HOSTILE[1]]})
    harmless = [{"code": "c", "message": "m", "advice": "a"}]
    clean = make_folder(tmp_path / "clean", processes=("a", "b", "c", "d"), warnings=harmless)
    clean.save_info(inferences=[{"what": "w", "value": "v", "evidence": "e"}], hotness={"r": ["x"]})
    for folder in (hostile, clean):
        report(folder, tmp_path / f"{folder.path.name[-5:]}.html")
    text = (tmp_path / "older.html").read_text()
    # THEN the page has the same elements and attributes as one without hostility
    expected = outline((tmp_path / "clean.html").read_text())
    assert outline(text).tags == expected.tags
    assert outline(text).attributes == expected.attributes
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>alert" not in text
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", text)


@pytest.mark.parametrize(
    ("stages", "commands"),
    [
        ((), {"analyze", "recommend", "replay"}),
        (("classify", "analyze"), {"recommend", "replay"}),
        (("classify", "analyze", "replay"), {"recommend"}),
    ],
)
def test_missing_stages_are_named(
    stages: tuple[str, ...], commands: set[str], tmp_path: Path
) -> None:
    folder = make_folder(tmp_path / "my trace", stages=stages)
    result = report(folder, tmp_path / "report.html")
    assert set(result.missing) == {f"tracekit {name} 'my trace'" for name in commands}
    text = (tmp_path / "report.html").read_text()
    for name in commands:
        assert f"<code>tracekit {name} &#39;my trace&#39;</code>" in text
    outline(text)


def test_nothing_lost_is_reported(whole: TraceFolder, text: str) -> None:
    assert whole.content["warnings"] == []
    assert "Nothing was lost, dropped or guessed: all 1,200 records were read and matched." in text


def test_losses_are_reported_with_their_numbers(parsed: TraceFolder) -> None:
    loss = {"has_numbers": True, "sequence_gaps": 3, "lost_records": 41_000}
    parsed.save_info(loss={**loss, "unmatched": {"issue": 7}})
    text = page_of(parsed)
    assert '<td>records lost at those gaps</td><td class="number">41,000</td>' in text
    assert '<td>events without their counterpart: issue</td><td class="number">7</td>' in text
    assert "has numbers" not in text
    assert "Nothing was lost" not in text


def test_a_broken_table_is_named_and_leaves_the_old_report(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "trace", stages=ALL_STAGES)
    output = written(tmp_path / "report.html", "the old one")
    folder.table("findings/totals").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(InputError, match=r"findings/totals\.parquet cannot be read"):
        report(folder, output)
    assert output.read_text() == "the old one"
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
