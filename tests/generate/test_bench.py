"""The command: a profile run on a target, with its report."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.command_line import invoke, succeed, with_free_bytes
from tests.generate.profiles import ARRIVAL, HEAD, READS, requests
from tracekit.workload.reader import read_profile

bench = partial(invoke, "bench")
SMALL = ("--target-size", "8MiB", "--requests", "300", "--pace", "fast")


def test_a_profile_is_run_on_a_file_made_for_it(tmp_path: Path) -> None:
    result = succeed("bench", "web-server", "-o", tmp_path / "out", *SMALL, "--json")
    # THEN every request was done, at the depth of the profile, and the file is gone
    told = json.loads(result.output)
    (summary,) = told["replays"]
    assert summary["counts"]["done"] == 300
    assert (summary["pace"], summary["depth"]) == ("fast", 32)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    # AND the report has latency and throughput over time, a histogram and cumulative shares
    page = Path(told["report"]).read_text()
    # AND sections of what a made trace has not say so
    assert "none is known to be under way" in page
    assert "has both its issue and its completion event" in page
    names = ("service", "throughput-over-time", "service-over-time", "histogram")
    assert [n for n in names if f'id="figure-replay-latest-{n}"' not in page] == []
    assert "tracekit generate profile.toml --requests 300 --target-size 8388608 -o out" in page


def test_requests_are_submitted_when_the_profile_says(tmp_path: Path) -> None:
    # GIVEN a profile of 2,000 requests a second
    (tmp_path / "own.toml").write_text(HEAD + ARRIVAL.replace("1ms", "500us") + READS)
    words = ("--engine", "null", "--requests", "1000", "--no-report")
    succeed("bench", tmp_path / "own.toml", "-o", tmp_path / "out", *words)
    done = pq.read_table(tmp_path / "out/replays/latest/completions.parquet").to_pandas()
    done = done.sort_values("request_id")
    # THEN they were due at the times that the profile's arrivals have
    due = requests(read_profile(tmp_path / "own.toml"), 1000)["intended_ns"].astype(np.int64)
    assert (np.diff(done["intended_ns"]) == np.diff(due)).all()
    # AND none was early, and half of them not a millisecond late, whatever the machine does
    late_ns = done["submit_ns"] - done["intended_ns"]
    assert late_ns.min() >= 0
    assert late_ns.median() < 1e6


def test_a_made_target_is_filled_and_kept_if_asked(tmp_path: Path) -> None:
    target = tmp_path / "disk" / "target"
    words = ("--target", target, *SMALL, "--keep", "--no-report", "--repeat", "2")
    succeed("bench", "paging", "-o", tmp_path / "out", *words)
    assert target.stat().st_size == 8 << 20
    assert target.stat().st_blocks * 512 >= 8 << 20
    names = sorted(path.name for path in (tmp_path / "out" / "replays").iterdir())
    assert names == ["latest.1", "latest.2"]
    assert not (tmp_path / "out" / "report.html").exists()


def test_an_existing_target_is_written_only_when_confirmed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(bytes(8 << 20))
    asked = ("log-structured", "--target", target, *SMALL, "--no-report")
    bench(*asked, "-o", tmp_path / "read")
    table = pq.read_table(tmp_path / "read/replays/latest/completions.parquet").to_pandas()
    assert set(table["status"]) == {"done", "skipped_read_only"}
    assert target.read_bytes() == bytes(8 << 20)
    succeed("bench", *asked, "-o", tmp_path / "written", "--write-to", target)
    assert target.read_bytes() != bytes(8 << 20)


def test_the_profiles_own_pace_and_speed(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(HEAD + ARRIVAL + READS)
    words = ("--duration", "2s", "--speed", "10", "--engine", "emulated", "--device", "ssd-nvme")
    own, out = tmp_path / "own.toml", tmp_path / "out"
    result = succeed("bench", own, "-o", out, *words, "--no-report", "--json")
    (summary,) = json.loads(result.output)["replays"]
    assert summary["pace"] == "trace"
    assert summary["counts"]["done"] == pytest.approx(2000, rel=0.1)
    assert summary["timing"]["intended_duration_ns"] == pytest.approx(2e8, rel=0.1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--depth", "0"), "--depth 0: not a number"),
        (("--engine", "null", "--target", "here"), "it moves no data"),
        (("--repeat", "0"), "--repeat 0: not a number"),
        (("--duration", "none"), "'none' is not a time"),
        (("--target-size", "1KiB"), "are for requests of up to 64 KiB"),
    ],
)
def test_bad_values_leave_nothing(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    result = bench("paging", "-o", tmp_path / "out", *arguments)
    assert result.exit_code in (1, 2)
    assert says in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_is_too_small_is_named_with_what_fits(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(bytes(1 << 20))
    result = bench("paging", "-o", tmp_path / "out", "--target", target)
    assert "it has 1 MiB, the profile paging needs 1 GiB" in str(result.exception)
    assert getattr(result.exception, "hint", "") == "pass --target-size 1048576"


def test_a_full_disk_is_reported_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a disk with 70 MiB free, of which 64 stay free
    free = "70 MiB are free on its disk, of which 64 MiB must stay free"
    told = f"8 MiB are needed, {free}"
    with_free_bytes(monkeypatch, tmp_path, 70 << 20)
    result = bench("paging", "-o", tmp_path / "out", "--target-size", "8MiB")
    assert told in str(result.exception)
    # AND the same command can be given again: there is no trace folder either
    assert list(tmp_path.iterdir()) == []
    # AND trace, plans and results count beside the target: 10,000 of 103 and, run twice, 160 bytes
    asked = ("paging", "-o", tmp_path / "out", "--target-size", "5MiB")
    both = bench(*asked, "--requests", "10000", "--repeat", "2")
    says = "an estimated 1.53 MiB are needed, beside 5 MiB for"
    assert f"{tmp_path / 'out'}: {says} {tmp_path / 'out.target'} on the same" in str(
        both.exception
    )
    alone = bench("paging", "-o", tmp_path / "out", "--engine", "null", "--requests", "99999")
    assert f"out: an estimated 9.82 MiB are needed, {free}" in str(alone.exception)
    assert list(tmp_path.iterdir()) == []
    target = tmp_path / "disk/target"
    again = bench("paging", "-o", tmp_path / "out", "--target", target, *SMALL)
    assert told in str(again.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_pace_that_a_bench_cannot_keep_is_rejected_by_the_parser(tmp_path: Path) -> None:
    result = bench("paging", "-o", tmp_path / "out", "--pace", "closed")
    assert result.exit_code == 2
    assert "Invalid value for '--pace'" in result.stderr
    assert list(tmp_path.iterdir()) == []
