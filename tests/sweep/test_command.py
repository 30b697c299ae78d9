"""`tracekit sweep`: the command, and a sweep that goes on."""

import json
import math
import os
import select
import signal
import statistics
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import invoke, refused
from tests.replay.disk import fill
from tests.replay.processes import await_true
from tests.sweep.command import QUICK, SMALL, rows, tracekit
from tests.traces import json_of
from tracekit.errors import StoppedError
from tracekit.report.sections.files import MOST_CALL_CURVES
from tracekit.sweep import run, summary

PATIENCE_S = 120
"""No test takes so long unless it hangs."""


def test_points_repeats_and_resuming(out: Path, target: Path) -> None:
    words = (*QUICK, "--json", "--files", "100", "--vary", "mean_size=4KiB")
    first = ("sweep", "varmail", "--target", f"disk={target}", "-o", out, *words)
    told = json.loads(tracekit(*first, "--threads", "1,2").stdout)
    assert (told["made"], told["kept"], told["missing"]) == (4, 0, [])
    # THEN there is a row a run and step, and one a run
    found = rows(out)
    steps = {"create", "append", "fsync", "close", "open", "read_file", "delete", "all"}
    assert {row["step"] for row in found} == steps
    assert len(found) == 4 * len(steps)
    assert {(row["threads"], row["run"]) for row in found} == {(1, 1), (1, 2), (2, 1), (2, 2)}
    # AND a point is mean and deviation of its repeats
    for point in told["points"]:
        key = {"threads": point["threads"], "step": point["step"]}
        rates = [row["steps_per_second"] for row in found if key.items() <= row.items()]
        assert point["run_count"] == 2
        assert math.isclose(point["steps_per_second"], statistics.mean(rates))
        assert math.isclose(point["deviation_per_second"], statistics.stdev(rates), abs_tol=1e-6)
    # WHEN it goes on with one more number of threads
    told = json.loads(tracekit(*first, "--threads", "1,2,4").stdout)
    assert (told["made"], told["kept"]) == (2, 4)
    assert {row["threads"] for row in rows(out)} == {1, 2, 4}
    assert all(row in rows(out) for row in found)
    assert list(target.iterdir()) == []


def test_rates_and_shares_add_up(out: Path, target: Path) -> None:
    text = tracekit("sweep", "fileserver", "--target", target, "-o", out, *SMALL, *QUICK).stdout
    assert "of the time" in text
    for number in (1, 2):
        mine = [row for row in rows(out) if row["run"] == number]
        (whole,) = [row for row in mine if row["step"] == "all"]
        parts = [row for row in mine if row["step"] != "all"]
        assert whole["steps"] == sum(row["steps"] for row in parts)
        assert whole["bytes"] == sum(row["bytes"] for row in parts)
        assert math.isclose(sum(row["time_ratio"] for row in parts), 1)
        # Two threads cannot be busy for longer than the time of both.
        busy_ns = sum(row["mean_ns"] * row["steps"] for row in parts)
        assert busy_ns <= 2.2 * whole["elapsed_ns"]
        assert whole["elapsed_ns"] <= 200_000_000
        settings = json.loads(whole["settings"])
        assert (settings["files"], settings["mean_size"]) == (100, 4096)


def test_the_bytes_of_an_operation_that_the_end_cuts_are_in_its_step(
    out: Path, target: Path
) -> None:
    # GIVEN files of 65,536 calls, and runs that end within the first of them
    long = ("--files", "4", "--threads", "2", "--vary", "mean_size=4MiB", "--io-size", "64B")
    tracekit(
        "sweep", "webserver", "--target", target, "-o", out, *long, *QUICK, "--duration", "5ms"
    )
    for number in (1, 2):
        mine = [row for row in rows(out) if row["run"] == number]
        (whole,) = [row for row in mine if row["step"] == "all"]
        read = [row for row in mine if row["step"] == "read_file"]
        assert 0 < whole["bytes"] == sum(row["bytes"] for row in read)


def test_one_size_of_calls_is_of_reads_and_writes(out: Path, target: Path) -> None:
    command = ("sweep", "varmail", "--target", target, "-o", out, *SMALL, *QUICK)
    tracekit(*command, "--io-size", "64B,4KiB")
    told = {row["io_bytes"]: json.loads(row["settings"]) for row in rows(out)}
    assert {size: values["append_size"] for size, values in told.items()} == {64: 64, 4096: 4096}


def test_errors_of_operations_are_reported_with_their_counts(out: Path, target: Path) -> None:
    # GIVEN a sweep of two runs, and errors in what they left
    command = ("sweep", "varmail", "--target", f"a={target}", "-o", out, *SMALL, *QUICK)
    assert json.loads(tracekit(*command, "--json").stdout)["failures"] == []
    error = {"operation": "read", "errno": 5, "name": "EIO", "meaning": "Input/output error"}
    for count, file in enumerate(out.glob("files/runs/*.json"), start=1000):
        told = json_of(file)
        told["summary"]["errors"] = [error | {"count": count}]
        file.write_text(json.dumps(told))
    # THEN they are added up in one line
    line = "  varmail on a: read failed 2,001 times: Input/output error (EIO)"
    assert line in tracekit(*command).stdout.splitlines()
    assert json.loads(tracekit(*command, "--json").stdout)["failures"] == [line]


def test_operations_are_kept_one_by_one(out: Path, target: Path) -> None:
    # GIVEN one thread: no other one makes a file longer while it is read
    alone = ("--files", "100", "--threads", "1", "--vary", "mean_size=4KiB")
    command = ("sweep", "varmail", "--target", target, "-o", out, *alone, *QUICK)
    tracekit(*command)
    # WHEN it is asked to keep them, THEN the runs are made anew, once
    assert "2 runs made, 0 there before" in tracekit(*command, "--operations").stdout
    assert "0 runs made, 2 there before" in tracekit(*command, "--operations").stdout
    # AND for each run and step they add up to what the run says itself
    table = tracekit("sql", out, OF_STEPS, "--format", "json").stdout
    kept = {(row["run_id"], row["step"]): row for row in json.loads(table)}
    told = {(row["run_id"], row["step"]): row for row in rows(out) if row["step"] != "all"}
    assert set(kept) == set(told)
    for key, row in told.items():
        # A file is read until a call returns nothing.
        calls = 2 if row["step"] == "read_file" else 1
        assert (kept[key]["calls"], kept[key]["moved"]) == (calls * row["steps"], row["bytes"])
        assert math.isclose(calls * kept[key]["mean_ns"], row["mean_ns"], rel_tol=1e-3)
    tracekit("report", out)
    page = (out / "report.html").read_text()
    assert "file-call-times" in page
    assert "no curve here" not in page


def test_curves_without_a_colour_are_counted(tmp_path: Path) -> None:
    # GIVEN two targets more than there are colours
    places = [tmp_path / f"t{number}" for number in range(MOST_CALL_CURVES + 2)]
    for place in places:
        place.mkdir()
    targets = [word for place in places for word in ("--target", f"{place.name}={place}")]
    out = tmp_path / "out"
    brief = ("--repeat", "1", "--duration", "100ms", "--operations")
    tracekit("sweep", "webproxy", *targets, "-o", out, *SMALL, *QUICK, *brief)
    tracekit("report", out)
    assert "2 more workloads and targets have no curve here" in (out / "report.html").read_text()


OF_STEPS = """
select run_id, step, count(*) as calls, coalesce(sum(done_bytes), 0)::bigint as moved,
    avg(end_ns - start_ns) as mean_ns
from sweep_operations where is_timed group by all
"""


def test_the_tables_are_there_for_sql(out: Path, target: Path) -> None:
    tracekit("sweep", "webproxy", "--target", f"a={target}", "-o", out, *SMALL, *QUICK)
    query = "select count(distinct run_id) as n from file_runs where step = 'all'"
    assert "2" in tracekit("sql", out, query).stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("varmial",), "no personality 'varmial'"),
        (("varmail", "--vary", "colour=red"), "no personality has the parameter 'colour'"),
        (("varmail", "--vary", "files"), "not KEY=VALUE"),
        (("varmail", "--files", "10,,20"), "--files 10,,20: a value is missing"),
        (("varmail", "--threads", "1,2,1"), "--threads 1,2,1: a value comes twice"),
        (("varmail", "--files", "9", "--vary", "files=8"), "--files gives its values already"),
        (("varmail", "--files", "0"), "--files: 0 is no number from 1 to"),
        (("varmail", "--files", "10.5"), "--files: 10.5 is no whole number"),
        (("varmail", "--files", "few"), "--files: 'few' is not a size"),
        (("varmail", "--vary", "files=0"), "--vary files: 0 is no number from 1"),
        (("varmail", "--io-size", "0"), "--io-size: 0 is nothing"),
        (("varmail", "--io-size", "1GiB"), "--io-size: 1073741824 is more than 64 MiB"),
        (("webproxy", "--io-size", "4KiB", "--vary", "append_size=0"), "--vary append_size: 0 is"),
        (("varmail", "--threads", "0"), "--threads: 0 is no number from 1 to 4096"),
        (("varmail", "--threads", "1.5"), "--threads: 1.5 is no whole number"),
        (("varmail", "--vary", "mean_size=-1"), "--vary mean_size: -1.0 is no size"),
        (("zip", "--io-size", "none"), "--io-size: 'none' is not a size"),
        (("varmail", "--seed", "-1"), "--seed -1: not a number from 0"),
        (("varmail", "--repeat", "0"), "--repeat: must be at least 1"),
        (("varmail", "--repeat", "0", "--until", "precision=5%"), "--repeat: must be at least 1"),
        (("varmail", "--cache", "warm"), "--cache"),
        (("varmail", "--duration", "soon"), "--duration"),
        (("varmail", "--target", "x=/nonexistent"), "/nonexistent does not exist make it (mkdir"),
        (("varmail", "--target", "x=/etc/passwd"), "/etc/passwd is no directory make it"),
    ],
)
def test_what_makes_no_sense(
    out: Path, target: Path, arguments: tuple[str, ...], words: str
) -> None:
    ended = tracekit("sweep", *arguments, "--target", f"t={target}", "-o", out, code=2)
    assert words in ended.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("varmail", "--depth", "3"), "--depth has no meaning"),
        (("varmail",), "needs --target"),
        (("varmail", "--target", "/", "--files", "0"), "--files: 0 is no number"),
        (("varmail", "--target", "/", "--set", "mean_size=x"), "--set mean_size: 'x' is not a"),
        (("varmail", "--target", "/", "--set", "files=0"), "--set files: 0 is no number from 1"),
        (("varmail", "--target", "/", "--set", "file=3"), "did you mean 'files'"),
        (("varmail", "--target", "/", "--threads", "5000"), "5000 is no number from 1 to 4096"),
        (("varmail", "--target", "/", "--set", "io_size=1GiB"), "more than 64 MiB"),
        (("paging", "--set", "files=3"), "--set has no meaning"),
        (("paging", "--threads", "3"), "--threads has no meaning"),
    ],
)
def test_bench_rejects_other_options(
    tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    assert words in tracekit("bench", *arguments, "-o", tmp_path / "out", code=2).stderr


def test_a_run_that_cannot_be_is_reported_and_the_others_are_made(out: Path, target: Path) -> None:
    # GIVEN a share of files with which none is there, between two that have some
    arguments = ("varmail", "--target", target, "-o", out, "--files", "100", "--threads", "2")
    shares = ("--vary", "present_ratio=0.8,0,0.5")
    ended = tracekit("sweep", *arguments, *shares, *QUICK, code=3)
    assert "the operation delete found no file to use: none is there" in ended.stderr
    shares_left = {json.loads(row["settings"])["present_ratio"] for row in rows(out)}
    assert shares_left == {0.8, 0.5}


def test_bench_runs_a_personality_once(out: Path, target: Path) -> None:
    arguments = ("bench", "varmail", "--target", target, "-o", out, "--duration", "100ms")
    small = ("--files", "100", "--threads", "2", "--set", "mean_size=4KiB")
    assert "1 run made" in tracekit(*arguments, *small, "--no-report").stdout
    assert {(row["threads"], row["files"], row["run"]) for row in rows(out)} == {(2, 100, 1)}
    # AND the same again replaces nothing, unless it is told to
    assert "0 runs made, 1 there before" in tracekit(*arguments, *small).stdout
    again = tracekit(*arguments, *small, "--force", "--no-report").stdout
    assert "1 run made, 0 there before" in again
    assert (out / "report.html").is_file()


# Tests that run in the background of a shell have inherited that SIGINT is ignored.
PLAIN = ("env", "--default-signal", sys.executable, "-m", "tracekit")
MANY = 20_000


def files_of(target: Path) -> int:
    """Return how many files a run has below a target."""
    return sum(len(files) for _, _, files in os.walk(target / "tracekit-files/run"))


@pytest.mark.parametrize(
    ("phase", "number", "times"),
    [
        ("making", signal.SIGINT, ("60s", "0s")),
        ("warm-up", signal.SIGTERM, ("60s", "60s")),
        ("timed", signal.SIGINT, ("60s", "0s")),
        ("removing", signal.SIGTERM, ("300ms", "0s")),
    ],
)
def test_a_signal_ends_a_sweep_in_each_phase(
    out: Path, target: Path, phase: str, number: int, times: tuple[str, str]
) -> None:
    # GIVEN a sweep of three runs on many files
    least, kept = (100 if phase == "making" else MANY), int(phase == "removing")
    command = ["sweep", "webserver", "--target", str(target), "-o", str(out), "--repeat", "3"]
    command += ["--files", str(MANY), "--threads", "2", "--vary", "mean_size=512"]
    command += ["--duration", times[0], "--warm-up", times[1], "--cache", "keep", "--no-report"]
    child = subprocess.Popen([*PLAIN, *command], stderr=subprocess.PIPE, text=True)
    # WHEN a signal comes while the first one makes files, runs, or removes them
    await_true(lambda: files_of(target) >= least)
    if phase == "removing":
        await_true(lambda: 0 < files_of(target) < MANY)
    elif phase != "making":
        time.sleep(0.5)
    sent_s = time.monotonic()
    child.send_signal(number)
    _, told = child.communicate(timeout=PATIENCE_S)
    # THEN it ends within seconds, keeps what was done, begins nothing more and leaves nothing
    assert time.monotonic() - sent_s < 8
    assert child.returncode == 128 + number, told
    assert f"stopped by {signal.Signals(number).name}; {3 - kept} runs are missing" in told
    assert len(list(out.glob("files/runs/*.json"))) == kept
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("kept", [1, 2])
def test_a_signal_just_after_a_run_was_kept(
    out: Path, target: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    # GIVEN a signal after the first or the last one of two runs, and files that are left
    keep, done = run._keep_one, []

    def keep_and_stop(*words: Any) -> None:
        keep(*words)
        done.append(words)
        if len(done) == kept:
            (target / "tracekit-files").mkdir()
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(run, "_keep_one", keep_and_stop)
    ended = tracekit("sweep", "varmail", "--target", target, "-o", out, *SMALL, *QUICK, code=143)
    # THEN that run is not missing, and where all are kept nothing is to go on with
    says = "all runs are kept" if kept == 2 else "1 run is missing: varmail files=100"
    assert f"stopped by SIGTERM; {says}" in ended.stderr
    assert ("goes on" in ended.stderr) == (kept == 1)
    assert f"the next run there removes {target}/tracekit-files first" in ended.stderr


def test_a_run_of_before_is_not_the_one_that_was_interrupted(
    out: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ("bench", "varmail", "--target", target, "-o", out, "--files", "100", "--threads", "2")
    bench = (*first, "--duration", "100ms", "--no-report")
    tracekit(*bench)
    # WHEN it is made anew, and a signal ends the program: THEN the old result is not the new one

    def stop(*_words: Any) -> None:
        raise StoppedError("stopped", exit_code=130)

    monkeypatch.setattr(run, "_run_plan", stop)
    ended = tracekit(*bench, "--force", code=130)
    assert "stopped by SIGINT; 1 run is missing: varmail" in ended.stderr


@pytest.mark.parametrize("at", ["run 1 of 3", "run 2 of 3"])
def test_a_signal_between_two_runs_ends_a_sweep(
    out: Path, target: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    # GIVEN a signal that comes when a run is about to begin, before its plan is made
    def tell(line: str) -> None:
        if line.startswith(at):
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(summary, "show", tell)
    command = ("sweep", "varmail", "--target", target, "-o", out, *SMALL, *QUICK, "--repeat", "3")
    ended = tracekit(*command, code=143)
    # THEN those before it are kept, in the table, too, and the same command makes the rest
    kept = int(at.split()[1]) - 1
    assert f"{3 - kept} runs are missing" in ended.stderr
    assert out.joinpath("files/file_runs.parquet").exists() == bool(kept)
    monkeypatch.undo()
    assert f"{3 - kept} runs made, {kept} there before" in tracekit(*command).stdout


def test_a_killed_sweep_loses_nothing_and_leaves_nothing(out: Path, target: Path) -> None:
    command = ["sweep", "varmail", "--target", str(target), "-o", str(out), *SMALL]
    command += ["--duration", "300ms", "--cache", "keep", "--no-report"]
    long = [sys.executable, "-m", "tracekit", *command, "--repeat", "20"]
    read_by, ended = os.pipe()
    child = subprocess.Popen(long, stdin=read_by, stderr=subprocess.DEVNULL)
    os.close(read_by)
    await_true(lambda: len(list(out.glob("files/runs/*.json"))) >= 2)
    child.kill()
    child.wait()
    # Its program ends by itself: nobody has the pipe any more.
    waiting = select.poll()
    waiting.register(ended, 0)
    assert waiting.poll(1000 * PATIENCE_S)
    os.close(ended)
    assert list(target.iterdir()) == []
    before = {file: file.read_bytes() for file in out.glob("files/runs/*.json")}
    told = json.loads(tracekit(*command, "--repeat", str(len(before) + 1), "--json").stdout)
    # THEN what was done is as it was, the rest is appended, and the table has both
    assert (told["kept"], told["made"], told["missing"]) == (len(before), 1, [])
    assert all(file.read_bytes() == data for file, data in before.items())
    assert {row["run"] for row in rows(out)} == set(range(1, len(before) + 2))
    # AND what the killed one had begun is gone
    assert {entry.name for entry in out.iterdir()} == {"files", "trace.json"}


@pytest.mark.root
def test_a_target_that_is_too_small_is_reported(out: Path, small_disk: Path) -> None:
    words = ("sweep", "fileserver", "--target", small_disk, "-o", out, "--files", "1000")
    ended = tracekit(*words, *QUICK, code=3)
    assert "MiB are free" in ended.stderr
    assert list(small_disk.iterdir()) == []


@pytest.mark.root
def test_a_disk_that_fills_up_is_reported_and_its_run_redone(
    tmp_path: Path, small_disk: Path
) -> None:
    out, other = tmp_path / "out", small_disk / "other"
    command = ["sweep", "fileserver", "--target", f"small={small_disk}", "-o", str(out)]
    command += ["--files", "10", "--threads", "1", "--vary", "mean_size=16KiB", "--repeat", "1"]
    command += ["--duration", "1s", "--cache", "keep", "--no-report"]

    def keep_full() -> None:
        await_true((small_disk / "tracekit-files").is_dir)
        time.sleep(0.2)
        with other.open("wb", buffering=0) as file:
            while (small_disk / "tracekit-files").is_dir():
                with suppress(OSError):
                    file.write(bytes(1 << 12))

    filler = threading.Thread(target=keep_full)
    filler.start()
    # WHEN it is over, THEN there is a line that says where, when and what to do, and no result
    ended = tracekit(*command, code=3)
    filler.join()
    assert "1 run is missing: fileserver" in ended.stderr
    assert f"{small_disk} was full after" in ended.stderr
    assert "free space there" in ended.stderr
    assert list(out.glob("files/runs/*.json")) == []
    # AND the same command makes the run when there is space again
    other.unlink()
    assert "1 run made, 0 there before" in tracekit(*command).stdout


@pytest.mark.root
def test_a_full_disk_of_the_results_is_named(target: Path, small_disk: Path) -> None:
    fill(small_disk / "other")
    out = small_disk / "out"
    ended = invoke("sweep", "varmail", "--target", target, "-o", out)
    refused(ended, str(small_disk), error=OSError)
