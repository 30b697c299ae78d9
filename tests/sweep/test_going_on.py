"""A sweep that is interrupted, killed, or out of space keeps what was done and goes on."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.command_line import invoke, refused
from tests.replay.disk import needs_root
from tests.sweep.command import QUICK, SMALL, rows, tracekit


def test_an_interrupted_sweep_keeps_what_was_done_and_goes_on(tmp_path: Path, target: Path) -> None:
    out = tmp_path / "out"
    command = ["sweep", "varmail", "--target", str(target), "-o", str(out), *SMALL]
    long = [*command, "--repeat", "20", "--duration", "300ms", "--cache", "keep", "--no-report"]
    # Tests that run in the background of a shell have inherited that SIGINT is ignored.
    plain = ["env", "--default-signal", sys.executable, "-m", "tracekit"]
    child = subprocess.Popen([*plain, *long], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and len(list(out.glob("files/runs/*.json"))) < 2:
        time.sleep(0.02)
    os.kill(child.pid, signal.SIGINT)
    assert child.wait(30) in (3, 130)
    done = len(list(out.glob("files/runs/*.json")))
    assert 2 <= done < 20
    assert list(target.iterdir()) == []
    told = json.loads(
        tracekit(
            *command, "--repeat", str(done + 1), "--duration", "300ms", "--cache", "keep", "--json"
        ).stdout
    )
    assert (told["kept"], told["made"]) == (done, 1)


def test_a_killed_sweep_loses_nothing_and_leaves_nothing(tmp_path: Path, target: Path) -> None:
    # GIVEN a sweep that is killed, which no program can take note of
    out = tmp_path / "out"
    command = ["sweep", "varmail", "--target", str(target), "-o", str(out), *SMALL]
    command += ["--duration", "300ms", "--cache", "keep", "--no-report"]
    long = [sys.executable, "-m", "tracekit", *command, "--repeat", "20"]
    child = subprocess.Popen(long, stderr=subprocess.DEVNULL)
    wait_for(lambda: len(list(out.glob("files/runs/*.json"))) >= 2)
    child.kill()
    child.wait()
    wait_for(lambda: not list(target.iterdir()))  # its program ends by itself
    before = {file: file.read_bytes() for file in out.glob("files/runs/*.json")}
    # WHEN the same command goes on
    told = json.loads(tracekit(*command, "--repeat", str(len(before) + 1), "--json").stdout)
    # THEN what was done is as it was, the rest is appended, and the table has both
    assert (told["kept"], told["made"], told["missing"]) == (len(before), 1, [])
    assert all(file.read_bytes() == data for file, data in before.items())
    assert {row["run"] for row in rows(out)} == set(range(1, len(before) + 2))
    # AND what the killed one had begun is gone
    assert {entry.name for entry in out.iterdir()} == {"files", "trace.json"}


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not condition():
        time.sleep(0.02)
    assert condition()


@needs_root
def test_a_target_that_is_too_small_is_told(tmp_path: Path, small_disk: Path) -> None:
    out = tmp_path / "out"
    ended = tracekit(
        "sweep", "fileserver", "--target", small_disk, "-o", out, "--files", "1000", *QUICK, code=3
    )
    assert "MiB are free" in ended.stderr
    assert list(small_disk.iterdir()) == []


@needs_root
def test_a_disk_that_fills_up_in_a_run_is_told_and_the_run_made_again(
    tmp_path: Path, small_disk: Path
) -> None:
    # GIVEN a run in whose middle somebody else takes all the space
    out, other = tmp_path / "out", small_disk / "other"
    command = ["sweep", "fileserver", "--target", f"small={small_disk}", "-o", str(out)]
    command += ["--files", "10", "--threads", "1", "--vary", "mean_size=16KiB", "--repeat", "1"]
    command += ["--duration", "1s", "--cache", "keep", "--no-report"]

    def fill() -> None:
        wait_for((small_disk / "tracekit-files").is_dir)
        time.sleep(0.2)
        with suppress(OSError), other.open("wb") as file:
            while True:
                file.write(bytes(1 << 16))

    filler = threading.Thread(target=fill)
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


@needs_root
def test_a_full_disk_of_the_results_is_named(target: Path, small_disk: Path) -> None:
    with suppress(OSError), (small_disk / "other").open("wb") as file:
        while True:
            file.write(bytes(1 << 16))
    out = small_disk / "out"
    refused(
        invoke("sweep", "varmail", "--target", target, "-o", out), str(small_disk), error=OSError
    )
