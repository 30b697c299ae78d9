"""The sentences on the answer, the replay and the origin of a report, as in `test_sections.py`."""

import json
import re
from pathlib import Path
from typing import Any

from tests.report.folder import make_folder, plain
from tracekit.report.inputs import Inputs
from tracekit.report.page import report
from tracekit.report.section import Section
from tracekit.report.sections import front, replay
from tracekit.report.sections import placement as capacity
from tracekit.store import TraceFolder

SETS = [
    {
        "placement": placement,
        "capacity_bytes": 2 << 20,
        "fs_bytes": fs << 20,
        "journal_bytes": journal << 20,
        "swap_bytes": 0,
        "elapsed_ns": seconds * 10**9,
        "gain_ratio": 1 - seconds / 40,
    }
    for placement, fs, journal, seconds in (
        ("combined", 1, 1, 20),
        ("fs+swap", 2, 0, 30),
        ("swap", 0, 0, 40),
    )
]


def folder_advice(folder: TraceFolder) -> dict[str, Any]:
    """Return what `recommend` said of a folder."""
    found: dict[str, Any] = json.loads((folder.path / "recommendation.json").read_text())
    return found


def test_capacity_ranges_cover_everything_once() -> None:
    flips = [
        {"capacity_bytes": 4096, "from": "base", "to": "fs"},
        {"capacity_bytes": 1 << 20, "from": "fs", "to": "combined"},
    ]
    assert capacity.ranges(flips) == [
        {"start": 0, "end": 4096, "placement": "nothing"},
        {"start": 4096, "end": 1 << 20, "placement": "file system"},
        {"start": 1 << 20, "end": None, "placement": "split"},
    ]
    assert capacity.ranges([]) == []


def test_shares_name_only_what_gets_some() -> None:
    split = {"fs_bytes": 4 << 20, "journal_bytes": 3 << 19, "swap_bytes": 0}
    assert plain([front.shares(split)]) == ["4 MiB file system, 1.5 MiB journal"]


def test_a_set_of_roles_is_called_by_all_of_them() -> None:
    assert front.placement_title("fs+journal") == "file system + journal"


def test_the_page_compares_the_sets_of_roles(tmp_path: Path) -> None:
    # GIVEN a recommendation with three sets, WHEN its page is made
    folder = make_folder(tmp_path / "trace")
    advised = {**folder_advice(folder), "role_sets": SETS}
    (folder.path / "recommendation.json").write_text(json.dumps(advised))
    report(folder, tmp_path / "page.html")
    text = plain([(tmp_path / "page.html").read_text(encoding="utf-8")])[0]
    # THEN it has a row for each, in that order, and says where a set leaves the NVM empty
    rows = re.findall(r'<th scope="row">([^<]+)</th><td class="wrap">([^<]+)</td>', text)
    assert rows == [
        ("all roles", "1 MiB file system, 1 MiB journal"),
        ("file system + swap", "2 MiB file system"),
        ("swap", "nothing on NVM"),
    ]


def test_replay_facts_are_flat_and_have_units() -> None:
    summary = {"engine": {"used": "null"}, "late_ns": 5000, "done": 1200, "tags": ["a"]}
    assert plain([f"{name} = {value}" for name, value in replay.flat(summary)]) == [
        "engine.used = null",
        "late_ns = 5 µs",
        "done = 1,200",
        "tags = ['a']",
    ]


def test_the_commands_to_reproduce_are_quoted(whole: TraceFolder) -> None:
    section = front.reproduce(Inputs(whole))
    assert isinstance(section, Section)
    assert section.parts["commands"] == [
        "sha256sum sda.blktrace.0",
        "tracekit parse sda.blktrace.0 -o trace",
        "tracekit classify trace",
        "tracekit analyze trace",
        "tracekit recommend trace --base hdd-7200 --nvm dax-pcm",
        "tracekit replay trace --limit 240 --engine auto --pace trace --name file",
        "tracekit report trace",
    ]


def test_a_failed_check_is_a_warning(whole: TraceFolder) -> None:
    section = front.warnings(Inputs(whole))
    assert isinstance(section, Section)
    assert section.parts["checks"] == []
