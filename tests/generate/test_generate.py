"""`tracekit generate`: requests made, the space for them, and a profile run on a target."""

import json
import os
import shutil
import subprocess
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.command_line import invoke, refused, succeed, with_free_bytes
from tests.generate.profiles import ARRIVAL, HEAD, READS, requests
from tracekit._native import program_path
from tracekit.errors import InputError
from tracekit.plans.block_plan import HEADER, RECORD
from tracekit.replay.compiler import PlanOptions, compile_plan
from tracekit.store import TraceFolder
from tracekit.workload.reader import read_profile
from tracekit.workload.requests import Extent, blocks

generate = partial(invoke, "generate")


def test_a_folder_and_a_plan_have_the_same_requests(tmp_path: Path) -> None:
    asked = ("web-server", "--requests", "30000", "--seed", "3")
    told = json.loads(succeed("generate", *asked, "-o", tmp_path / "trace", "--json").output)
    succeed("generate", *asked, "-o", tmp_path / "plan", "--format", "plan")
    # THEN the folder's own plan has the plan's requests, from the time of the first on
    compile_plan(TraceFolder(tmp_path / "trace"), tmp_path / "own", options=PlanOptions())
    plan, own = (
        np.frombuffer((tmp_path / name).read_bytes()[HEADER.itemsize :], RECORD, 30_000)
        for name in ("plan", "own")
    )
    first = plan["intended_ns"][0]
    assert (plan["intended_ns"] - first).tolist() == own["intended_ns"].tolist()
    shift = int(plan["sector"].min())  # the trace's address space begins at its first MiB
    for name in ("length_sectors", "operation", "request_id"):
        assert plan[name].tolist() == own[name].tolist()
    moved = np.unique(plan["sector"].astype(int) - own["sector"].astype(int)).tolist()
    assert moved == [shift // 2048 * 2048]
    assert told["requests"] == 30_000
    assert sum(told["operations"].values()) == 30_000


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("one", "5"), ("two", "5"), ("other", "6")):
        words = ("--requests", "20000", "--seed", seed, "--format", "plan")
        succeed("generate", "paging", *words, "-o", tmp_path / name)
    one, two, other = ((tmp_path / name).read_bytes() for name in ("one", "two", "other"))
    assert one == two
    assert one != other


def test_the_replayer_takes_the_plan(tmp_path: Path) -> None:
    words = ("--requests", "5000", "--format", "plan")
    succeed("generate", "log-structured", *words, "-o", tmp_path / "plan")
    outcome = subprocess.run(
        [str(program_path()), tmp_path / "plan", "--engine", "null", "--pace", "fast"],
        capture_output=True,
        text=True,
        check=True,
    )
    summary = json.loads(outcome.stdout)
    assert summary["counts"]["done"] == 5000
    assert summary["plan"]["max_transfer_bytes"] == 128 << 10


def test_stages_take_the_folder(tmp_path: Path) -> None:
    text = """target_size = "64MiB"
[[stream]]
role = "journal"
process = "jbd2"
size = "8MiB"
arrival = { process = "constant", mean = "1ms" }
request = [
  { share = 1, operation = "write", access = "sequential", size = "4KiB", flags = ["fua"] },
]
[[stream]]
role = "fs"
start = "8MiB"
arrival = { process = "exponential", mean = "500us" }
request = [{ share = 1, operation = "read", access = "random", size = "4KiB" }]
"""
    (tmp_path / "two.toml").write_text(text)
    trace = tmp_path / "trace"
    succeed("generate", tmp_path / "two.toml", "--duration", "2s", "-o", str(trace))
    for command in (["classify"], ["replay", "--engine", "null"], ["simulate", "cache"]):
        succeed(*command, trace)
    table = pq.read_table(trace / "requests.parquet").to_pandas()
    # THEN the roles are those of the profile, which the layout tells classify
    roles = table.groupby(["role", "process"], observed=True, dropna=False).size()
    assert roles["journal", "jbd2"] == 1999
    assert roles["fs"].sum() == pytest.approx(4000, rel=0.1)
    assert table[table["role"] == "journal"]["is_fua"].all()
    assert table["queue_ns"].is_monotonic_increasing
    assert (table["queue_ns"] < 2 * 10**9).all()
    assert (trace / "profile.toml").read_text() == text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nothing",), "there is no profile 'nothing'"),
        (("paging", "--requests", "0"), "--requests 0: not a number"),
        (("paging", "--seed", "-1"), "--seed -1: not a number"),
        (("paging", "--duration", "1"), "'1' is not a time"),
        (("paging", "--duration", "1ns"), "no request comes in that time"),
        (("paging", "--target-size", "1000B"), "no multiple of the sector"),
        (("paging", "--target-size", "4KiB"), "are for requests of up to 64 KiB"),
    ],
)
@pytest.mark.parametrize("form", ["trace", "plan"])
def test_bad_values_leave_nothing(
    tmp_path: Path, arguments: tuple[str, ...], says: str, form: str
) -> None:
    result = generate(*arguments, "-o", tmp_path / "out", "--format", form)
    assert result.exit_code in (1, 2)
    assert says in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_flow_of_file_operations_is_no_profile(tmp_path: Path) -> None:
    (tmp_path / "flow.toml").write_text('[[operation]]\nname = "open"\n')
    result = generate(tmp_path / "flow.toml", "-o", tmp_path / "out")
    refused(result, "has a flow of file operations")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", ["plan", "fio"])
def test_a_folder_is_no_place_for_a_file(tmp_path: Path, form: str) -> None:
    result = generate("paging", "-o", tmp_path, "--format", form, "--force")
    assert str(result.exception) == f"{tmp_path} is a folder, not a file"
    assert getattr(result.exception, "hint", "") == f"write to {tmp_path / 'paging'}.{form}"
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_replaced(tmp_path: Path) -> None:
    for form in ("trace", "plan", "fio"):
        out = str(tmp_path / form)
        succeed("generate", "paging", "--requests", "10", "-o", out, "--format", form)
        result = generate("paging", "--requests", "10", "-o", out, "--format", form)
        assert "exists already" in str(result.exception)
        succeed("generate", "paging", "--requests", "10", "-o", out, "--format", form, "--force")


EVERYTHING = (
    HEAD
    + ARRIVAL.replace("1ms", "200us")
    + READS.replace("share = 1", "share = 0.4")
    + 'locality = { kind = "hot", blocks = 0.1, requests = 0.9, block = "64KiB" }\n'
    + """
[[request]]
share = 0.3
operation = "write"
access = "sequential"
run = 8
size = { values = ["4KiB", "16KiB"], weights = [2, 1] }
[[request]]
share = 0.2
operation = "read"
access = "random"
size = { distribution = "gamma", mean = "16KiB", shape = 2, least = "4KiB", most = "64KiB" }
locality = { kind = "zipf", exponent = 1.1, block = "4KiB" }
[[request]]
share = 0.1
operation = "write"
access = "sequential"
size = "64KiB"
"""
)


FIO_ATTEMPTS = 5


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
@pytest.mark.parametrize("form", ["web-server", "everything", "fast"])
def test_fio_runs_the_job_without_complaint(tmp_path: Path, form: str) -> None:
    fast = EVERYTHING.replace("[arrival]", 'pace = "fast"\n[arrival]')
    (tmp_path / "own.toml").write_text(fast if form == "fast" else EVERYTHING)
    name = form if form == "web-server" else tmp_path / "own.toml"
    job = tmp_path / "job.fio"
    succeed(
        "generate", name, "--duration", "1s", "--target-size", "64MiB", "-o", job, "--format", "fio"
    )
    with (tmp_path / "file").open("wb") as target:
        os.truncate(target.fileno(), 64 << 20)
    command = ["fio", f"--filename={tmp_path / 'file'}", "--output-format=json", str(job)]
    # WHEN fio runs it, several times where others keep the disk from the rate
    for _ in range(FIO_ATTEMPTS):
        outcome = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
        # THEN it has nothing to say
        assert outcome.stderr == ""
        jobs = {one["jobname"]: one for one in json.loads(outcome.stdout)["jobs"]}
        assert len(jobs) == 4
        assert all(one["error"] == 0 for one in jobs.values())
        reads, writes = jobs["read-1.1"]["read"], jobs["write-1.2"]["write"]
        if form != "everything" or (reads["iops"] > 1800 and writes["total_ios"] > 1350):
            break
    if form == "everything":
        assert reads["iops"] == pytest.approx(2000, rel=0.1)
        assert writes["total_ios"] == pytest.approx(1500, rel=0.1)
        assert writes["io_bytes"] / writes["total_ios"] == pytest.approx(8192, rel=0.1)


def test_an_interrupted_reader_of_blocks_ends_its_maker(tmp_path: Path) -> None:
    # GIVEN a disk that is full: /dev/full refuses what is written
    before = threading.active_count()
    result = generate("paging", "--format", "plan", "-o", "/dev/full", "--force")
    assert result.exit_code != 0
    assert threading.active_count() == before
    assert list(tmp_path.iterdir()) == []


PHASES = """[[phase]]
duration = "1s"
rate = 3
[[phase]]
duration = "2s"
rate = 0
"""


@pytest.mark.parametrize(
    ("form", "is_timed", "needed"),
    [
        ("trace", False, "an estimated 5.46 TiB"),
        ("plan", False, "43.7 TiB"),
        ("trace", True, "an estimated 5.46 TiB"),
        ("plan", True, "an estimated 43.7 TiB"),
    ],
)
def test_a_disk_without_space_is_reported_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, is_timed: bool, needed: str
) -> None:
    # GIVEN a disk with a GiB free, and 10^12 requests of 6 or 48 bytes. Those of a time: one each
    # us in the first of each 3 s, three times as often, so in 1,000,000 s 333,334 times 3 * 10^6
    own, output = tmp_path / "own.toml", tmp_path / "new" / "out"
    own.write_text(HEAD + ARRIVAL.replace("1ms", "1us") + PHASES + READS)
    with_free_bytes(monkeypatch, tmp_path, 1 << 30)
    asked = (own, "--duration", "1000000s") if is_timed else ("paging", "--requests", str(10**12))
    result = generate(*asked, "--format", form, "-o", output)
    message = f"{output}: {needed} are needed, 1 GiB are free on its disk"
    refused(result, message, error=InputError)
    fewer = "a shorter --duration" if is_timed else "choose fewer --requests"
    assert fewer in getattr(result.exception, "hint", "")
    assert list(tmp_path.iterdir()) == [own]


@pytest.mark.parametrize("duration_ms", [500, 1000, 2500, 3000, 3300, 7200])
def test_expected_requests_of_a_time_are_those_that_come(tmp_path: Path, duration_ms: int) -> None:
    # GIVEN phases, and bursts of 4 requests 1 ms from each other with 5 ms before each burst
    head = HEAD.replace("[arrival]", "")
    (tmp_path / "phases.toml").write_text(head + ARRIVAL + PHASES + READS)
    bursts = ARRIVAL + 'burst = { requests = 4, off = "constant", mean = "5ms" }\n'
    (tmp_path / "bursts.toml").write_text(head + bursts + READS)
    for name in ("phases", "bursts"):
        profile = read_profile(tmp_path / f"{name}.toml")
        extent = Extent(duration_ns=duration_ms * 10**6)
        count = sum(len(records) for records in blocks(profile, extent))
        assert extent.expected_requests(profile) == pytest.approx(count, rel=0.12)
        # THEN no more come than were asked for as well
        assert Extent(7, duration_ms * 10**6).expected_requests(profile) == 7


def test_a_plan_needs_the_space_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("paging", "--requests", "20000", "--format", "plan")
    succeed("generate", *asked, "-o", tmp_path / "plan")
    # GIVEN a disk with room for just that many bytes
    with_free_bytes(monkeypatch, tmp_path, (tmp_path / "plan").stat().st_size + 4096)
    succeed("generate", *asked, "-o", tmp_path / "again")


def test_a_read_only_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda _path, mode: mode != os.W_OK)
    result = generate("paging", "--requests", "10", "-o", tmp_path / "out")
    assert f"{tmp_path / 'out'}: {tmp_path} cannot be written to" in str(result.exception)
    assert list(tmp_path.iterdir()) == []


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
    assert "tracekit generate profile.toml --requests 300 --target-size 8388608B -o out" in page


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
    target = tmp_path / "target"
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
def test_bad_values_of_a_target_leave_nothing(
    tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    result = bench("paging", "-o", tmp_path / "out", *arguments)
    assert result.exit_code in (1, 2)
    assert says in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_is_too_small_is_named_with_what_fits(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(bytes(1 << 20))
    result = bench("paging", "-o", tmp_path / "out", "--target", target)
    assert "it has 1 MiB, the profile paging needs 1 GiB" in str(result.exception)
    assert getattr(result.exception, "hint", "") == "pass --target-size 1048576B"


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
    target = tmp_path / "target"
    again = bench("paging", "-o", tmp_path / "out", "--target", target, *SMALL)
    assert told in str(again.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_pace_that_a_bench_cannot_keep_is_rejected_by_the_parser(tmp_path: Path) -> None:
    result = bench("paging", "-o", tmp_path / "out", "--pace", "closed")
    assert result.exit_code == 2
    assert "Invalid value for '--pace'" in result.stderr
    assert list(tmp_path.iterdir()) == []
