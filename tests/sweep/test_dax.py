"""For which workloads DAX pays: what is said of rows made by hand, and of a sweep."""

import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from tests.analyzers.folder import fixture_tables, make
from tests.command_line import invoke, succeed
from tests.sweep.command import rows, tracekit
from tracekit.errors import InputError
from tracekit.plans.file_plan import Medium
from tracekit.report.inputs import Inputs
from tracekit.report.section import Section
from tracekit.report.sections.files import MOST_KINDS, dax, named_pairs
from tracekit.store import TraceFolder
from tracekit.sweep import grid
from tracekit.sweep.grid import has_flag, is_dax
from tracekit.sweep.run import read_runs
from tracekit.sweep.summary import explain, find_verdicts, paragraphs, summarize_verdicts
from tracekit.units import format_share

TABLES = fixture_tables("files/dax_verdicts")


def test_each_workload_is_reported_with_its_reason(tmp_path: Path) -> None:
    folder = make(tmp_path / "out", TABLES)
    lines = summarize_verdicts(find_verdicts(folder))
    # THEN each pair of targets has a headline, and each workload its ratio and the step behind it
    assert lines == [
        "dax beside cache: DAX does not pay for webproxy; makes no difference for webserver;"
        " may or may not pay for noisy, once and stuck",
        "  noisy: not decided, 0.943 times the steps (0.0115 to 77.1 with 95% confidence,"
        " 2 runs each)",
        "  once: not decided, 3 times the steps; one of the targets has one run; repeat more:"
        " --repeat",
        "  stuck: not decided, one of the targets has not done any step",
        "  webproxy: does not pay, 0.5 times the steps (0.5 to 0.5 with 95% confidence, 2 runs"
        " each); append costs 120.0% of the time of all steps on cache: it takes 30 ns and 60.0%"
        " of the time there, 90 ns and 90.0% on dax",
        "  webserver: no difference, 1.01 times the steps (1.01 to 1.01 with 95% confidence,"
        " 2 runs each)",
        "dax beside hdd: DAX pays for varmail",
        "  varmail: pays, 2 times the steps (2 to 2 with 95% confidence, 2 runs each); fsync saves"
        " 55.0% of the time of all steps on hdd: it takes 34 ns and 85.0% of the time there,"
        " 12 ns and 60.0% on dax",
    ]


def verdict(ratio: float | None, text: str, **fields: Any) -> dict[str, Any]:
    return {
        "personality": "varmail",
        "target": "dax",
        "other": "hdd",
        "threads": 1,
        "files": None,
        "io_bytes": None,
        "settings": "{}",
        "run_count": 5,
        "ratio": ratio,
        "ratio_low": ratio,
        "ratio_high": ratio,
        "verdict": text,
        "step": None,
        **fields,
    }


def test_settings_of_a_workload_are_counted_and_its_ends_told() -> None:
    rows = [
        verdict(3.0, "pays", io_bytes=64),
        verdict(12.0, "pays", io_bytes=16384, threads=8),
        verdict(1.0, "no difference", io_bytes=1024, files=1000),
        verdict(None, "not decided", io_bytes=128),
    ]
    ((title, (line,)),) = paragraphs(rows)
    assert title == "dax beside hdd: DAX differs by the setting for varmail"
    assert line == (
        "varmail, 4 settings: pays in 2, no difference in 1, not decided in 1; 1 times the steps"
        " (1 thread, 1,000 files, 1 KiB a call) to 12 times (8 threads, 16 KiB a call)"
    )


def test_settings_of_one_run_each_are_reported_to_be_so() -> None:
    once = {"run_count": 1, "ratio_low": None, "ratio_high": None}
    rows = [verdict(float(n), "not decided", threads=n, **once) for n in (1, 2)]
    ((_, (line,)),) = paragraphs(rows)
    assert (
        "not decided in 2; one of the targets has one run; repeat more: --repeat; 1 times" in line
    )


def test_a_step_that_one_target_never_did_is_no_reason() -> None:
    row = verdict(2.0, "pays", step="read", saved_ratio=None, mean_ns=1.0, other_mean_ns=None)
    assert explain(row).endswith("read was not done on both")


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(0.995, "99.5%"), (0.99997, "> 99.9%"), (1.0, "100.0%"), (0.0001, "< 0.1%"), (0, "0.0%")],
)
def test_nearly_all_is_not_all(ratio: float, text: str) -> None:
    assert format_share(ratio) == text


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("rw,dax=always", True),
        ("rw,dax", True),
        ("rw,dax=never", False),
        ("rw,dax=inode", False),
        ("rw,errors=remount-ro", False),
    ],
)
def test_a_mount_says_whether_it_does_dax(tmp_path: Path, options: str, expected: bool) -> None:
    device = os.stat(tmp_path).st_dev
    table = tmp_path / "mountinfo"
    table.write_text(
        "30 1 250:7 / /mnt/pmem rw shared:2 - ext4 /dev/pmem0 rw,dax=always\n"
        f"31 1 {os.major(device)}:{os.minor(device)} / / rw - ext4 /dev/vda {options}\n"
    )
    assert is_dax(tmp_path, mounts=table) == expected
    assert not has_flag(tmp_path)


def test_the_section_shows_each_pair_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    # GIVEN the fixture, and one workload with more settings than fit
    many = [
        {
            "personality": "many",
            "target": target,
            "is_dax": is_dax,
            "run": run,
            "threads": threads,
            "settings": json.dumps({"threads": threads}),
            "step": "all",
            "steps": "10",
            "steps_per_second": str(threads * (2 if is_dax == "true" else 1)),
            "mean_ns": "10",
        }
        for threads in range(1, MOST_KINDS + 4)
        for target, is_dax in (("dax", "true"), ("cache", "false"))
        for run in (1, 2)
    ]
    runs = [*many, *(row | {"settings": SETTINGS[row["settings"]]} for row in TABLES["file_runs"])]
    compared = [
        {"personality": "many", "threads": row["threads"], "settings": row["settings"]}
        | {"target": "cache", "other": "dax", "ratio": 0.5}
        | {"ratio_low": 0.5, "ratio_high": 0.5, "corrected_p_value": 0.01}
        for row in many[::4]
    ]
    compared += [
        row | {"settings": SETTINGS[row["settings"]]} for row in TABLES["file_comparisons"]
    ]
    folder = make(tmp_path / "out", {"file_runs": runs, "file_comparisons": compared})
    section = dax(Inputs(folder))
    assert isinstance(section, Section)
    ratios, savings = section.parts["figures"]
    # THEN the figure has the first ones, and says how many are not in it
    assert any("more settings are in the table" in line for line in ratios.sentences)
    assert {key.text for key in ratios.legend} <= {"pays", "does not pay", "no difference"}
    assert 'id="dax-savings' in savings.drawing.svg or "<svg" in savings.drawing.svg
    assert [title for title, _ in section.parts["pairs"]][1].startswith("dax beside hdd")


SETTINGS = {name: json.dumps({"files": name}) for name in "abcdef"}


def test_kinds_name_the_dax_target_where_there_are_two() -> None:
    rows = [verdict(2.0, "pays"), verdict(3.0, "pays", target="dax2")]
    kinds = named_pairs(pd.DataFrame(rows))["kind"].tolist()
    assert kinds == ["varmail, hdd (dax)", "varmail, hdd (dax2)"]


def test_a_folder_without_both_kinds_of_targets_has_no_section(tmp_path: Path) -> None:
    tables = {"file_runs": [row for row in TABLES["file_runs"] if row["is_dax"] == "false"]}
    tables["file_comparisons"] = TABLES["file_comparisons"]
    assert dax(Inputs(make(tmp_path / "out", tables))) is None
    none = make(tmp_path / "none", {"file_runs": [], "file_comparisons": []})
    assert summarize_verdicts(find_verdicts(none)) == []


def test_a_sweep_says_where_dax_pays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pm", "disk"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(grid, "is_dax", lambda directory: directory.name == "pm")
    words = ["sweep", "varmail", "-o", str(tmp_path / "out"), "--repeat", "2", "--cache", "keep"]
    words += [part for name in ("pm", "disk") for part in ("--target", f"{name}={tmp_path / name}")]
    words += ["--files", "40", "--threads", "1", "--duration", "100ms"]
    ended = succeed(*words)
    assert "pm beside disk: " in ended.stdout
    told = json.loads(invoke(*words, "--json", "--no-report").stdout)
    assert [(row["target"], row["other"]) for row in told["dax"]] == [("pm", "disk")]
    page = (tmp_path / "out/report.html").read_text()
    assert "Where DAX pays" in page
    assert "dax-ratios" in page
    asked = "select target, other, count(*) as n from dax_steps group by all"
    assert "pm" in invoke("sql", tmp_path / "out", asked).stdout


def test_memory_that_stands_for_dax_has_its_times_and_is_told(tmp_path: Path, target: Path) -> None:
    # GIVEN a sweep over a disk and memory that takes 2 us for 64 bytes read, 5 us for those written
    out, disk, memory = tmp_path / "out", tmp_path / "disk", target / "memory"
    disk.mkdir()
    memory.mkdir()
    ended = tracekit(
        *("sweep", "varmail", "-o", out, "--repeat", "2", "--cache", "keep", "--duration", "100ms"),
        *("--files", "40", "--threads", "1", "--vary", "mean_size=4KiB"),
        *("--target", f"pcm=memory:{memory}:2us:5us", "--target", f"disk={disk}"),
    )
    # THEN no call of its was faster than that, all its lines together
    calls = [row for row in rows(out) if row["target"] == "pcm" and row["steps"]]
    for step, line_ns in (("read_file", 2000), ("append", 5000)):
        for row in (one for one in calls if one["step"] == step):
            assert row["mean_ns"] * row["steps"] >= row["bytes"] / 64 * line_ns
    assert {row["step"] for row in calls} >= {"read_file", "append"}
    # AND it is compared as DAX, and both the answer and the page say what it stands for
    assert "pcm beside disk: DAX " in ended.stdout
    note = (
        "pcm stands for a file system with DAX: it is one in memory alone, as the model of"
        " 2000ns:5000ns says, in lines of 64 bytes: read after 2000 ns, 0.032 GB/s a thread,"
        " no limit for all; written after 5000 ns, 0.0128 GB/s a thread, no limit for all;"
        " its fsync"
    )
    assert note in ended.stdout
    assert note in " ".join((out / "report.html").read_text().split())
    stored = [run.memory for run in read_runs(TraceFolder(out)) if run.target == "pcm"]
    medium = vars(
        Medium("2000ns:5000ns", 2000, 5000, read_line_ps=2 * 10**6, write_line_ps=5 * 10**6)
    )
    assert stored == [{"stands_for_dax": True, "medium": medium}] * 2


def test_a_table_of_an_older_version_says_how_to_make_it_anew(tmp_path: Path) -> None:
    folder = make(tmp_path / "out", TABLES)
    table = pq.read_table(folder.table("files/file_runs"))
    pq.write_table(table.drop_columns(["is_dax"]), folder.table("files/file_runs"))
    with pytest.raises(InputError, match="made by another version") as error:
        find_verdicts(folder)
    assert error.value.hint == "make it anew: the same tracekit sweep again"
