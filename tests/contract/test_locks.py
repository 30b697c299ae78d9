"""Commands on one trace folder at the same time: one writes alone, the others wait for it."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tracekit as tk
from tests.simulate.placement_models import Request, write_trace
from tests.traces import json_of
from tracekit.locks import folder_lock
from tracekit.store import new_folder, write_json

TIMEOUT_S = 60
HOLDER = """
import sys; from pathlib import Path; from tracekit.locks import folder_lock
with folder_lock(Path(sys.argv[1]), shared=sys.argv[2] == "shared"):
    print("has it", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "t", [Request("fs", sector) for sector in range(0, 800, 8)])


@contextmanager
def held(folder: Path, how: str = "exclusive") -> Iterator[subprocess.Popen[str]]:
    """Let another process hold the lock until it gets a line."""
    command = [sys.executable, "-c", HOLDER, str(folder), how]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "has it\n"
        try:
            yield holder
        finally:
            holder.kill()


def begin(*words: str | Path) -> subprocess.Popen[str]:
    # Tests that run in the background of a shell have inherited that SIGINT is ignored.
    command = ["env", "--default-signal", sys.executable, "-m", "tracekit", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def waits(running: subprocess.Popen[str], folder: Path, holder: subprocess.Popen[str]) -> None:
    """Read the line that says so."""
    assert running.stderr is not None
    line = f"tracekit: waiting for {folder}, in use by process {holder.pid}\n"
    assert running.stderr.readline() == line


@pytest.mark.parametrize(
    ("words", "how"),
    [("classify", "exclusive"), ("classify", "shared"), ("export --format msr", "exclusive")],
)
def test_a_command_waits_and_says_for_whom(folder: Path, words: str, how: str) -> None:
    output = ["-o", str(folder.with_name("t.csv"))] if "export" in words else []
    with held(folder, how) as holder:
        running = begin(*words.split(), folder, *output)
        waits(running, folder, holder)
        # It is still waiting after a while, and goes on when the other one ends.
        time.sleep(0.2)
        assert running.poll() is None
        holder.communicate("go on\n", TIMEOUT_S)
        _, talk = running.communicate(timeout=TIMEOUT_S)
    assert (running.returncode, "waiting" in talk) == (0, False)


def test_those_who_read_share(folder: Path) -> None:
    with held(folder, "shared"):
        running = begin("sql", folder, "select count(*) as n from requests", "--format", "csv")
        assert running.communicate(timeout=TIMEOUT_S) == ("n\n100\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_waiting_can_be_stopped(folder: Path, number: signal.Signals) -> None:
    with held(folder) as holder:
        running = begin("classify", folder)
        waits(running, folder, holder)
        running.send_signal(number)
        _, talk = running.communicate(timeout=TIMEOUT_S)
    assert (running.returncode, talk) == (128 + number, "")


def test_a_lock_ends_with_its_process(folder: Path) -> None:
    with held(folder) as holder:
        running = begin("classify", folder)
        waits(running, folder, holder)
        holder.kill()
        running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == 0


def test_what_a_command_runs_does_not_wait_for_it(folder: Path) -> None:
    program = f"""
import subprocess, sys; from pathlib import Path; from tracekit.locks import folder_lock
with folder_lock(Path({str(folder)!r})):
    subprocess.run([sys.executable, "-m", "tracekit", "classify", {str(folder)!r}], check=True)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert (done.returncode, "waiting" in done.stderr) == (0, False)


def test_what_another_process_has_changed_is_kept(folder: Path) -> None:
    # GIVEN a trace that is open, and a change to its trace.json by somebody else
    trace = tk.open(folder)
    write_json(folder / "trace.json", {**json_of(folder / "trace.json"), "note": "theirs"})
    # WHEN a stage changes it, too, THEN both changes are in it
    trace.classify()
    content = json_of(folder / "trace.json")
    assert content["note"] == "theirs"
    assert "classification" in content


def test_threads_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    inside, most = [0], [0]

    def work() -> None:
        for _ in range(20):
            with folder_lock(tmp_path), folder_lock(tmp_path, shared=True), folder_lock(tmp_path):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.001)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_a_lock_is_of_the_folder_that_has_the_name(tmp_path: Path) -> None:
    # GIVEN one who waits for a folder, which is then replaced
    out = tmp_path / "out"
    with new_folder(out) as part:
        write_json(part / "trace.json", 1)
    seen: list[int] = []

    def look() -> None:
        with folder_lock(out):
            seen.append(json_of(out / "trace.json"))  # type: ignore[arg-type]
            time.sleep(0.3)
            seen.append(0)

    looking = threading.Thread(target=look)
    with folder_lock(out):
        looking.start()
        time.sleep(0.2)
        with new_folder(out, overwrite=True) as part:
            write_json(part / "trace.json", 2)
    # WHEN it has the lock, THEN nobody else has that of the new folder
    while not seen:
        time.sleep(0.01)
    with folder_lock(out):
        assert seen == [2, 0]
    looking.join()


def test_a_shared_lock_becomes_exclusive_for_a_while(tmp_path: Path) -> None:
    inside: list[str] = []

    def work(name: str) -> None:
        with folder_lock(tmp_path, shared=True), folder_lock(tmp_path):
            inside.append(name)
            time.sleep(0.05)
            inside.append(name)

    threads = [threading.Thread(target=work, args=name) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "".join(inside) in ("aabb", "bbaa")


REPLAY = ("replay", "--engine", "null", "--name", "a", "--json")


def test_two_replays_of_one_name_are_both_answered(folder: Path) -> None:
    both = [begin(*REPLAY, folder) for _ in range(2)]
    ended = [(*one.communicate(timeout=TIMEOUT_S), one.returncode) for one in both]
    (out, _, _), (_, talk, _) = sorted(ended, key=lambda one: one[2])
    assert sorted(status for *_, status in ended) == [0, 2]
    assert "replays/a exists already" in talk
    # THEN the result that is there is that of the one that succeeded
    assert json_of(folder / "replays/a/summary.json") == json.loads(out)
    assert [path.name for path in (folder / "replays").iterdir()] == ["a"]


def test_without_locks_neither_of_two_results_is_lost(folder: Path) -> None:
    # GIVEN a file system without locks, and a replay whose name is taken while it runs
    words = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=flock"]
    words += ["-e", "inject=flock:error=ENOLCK"]
    command = [*words, sys.executable, "-m", "tracekit", *REPLAY, str(folder)]
    try:
        both = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
    except FileNotFoundError:
        pytest.skip("this machine has no strace")
    ended = [(*one.communicate(timeout=TIMEOUT_S), one.returncode) for one in both]
    # THEN each succeeded, was refused at the start, or is beside the other one
    found = sorted(path.name for path in (folder / "replays").iterdir())
    statuses = sorted(status for *_, status in ended)
    assert (found, statuses) in ((["a", "a-2"], [0, 1]), (["a"], [0, 2]))
