"""How a command ends when the system refuses something, or when it is stopped."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.command_line import succeed, typed
from tests.simulate.placement_models import Request, write_trace
from tests.traces import json_of
from tracekit.errors import foreign_error

TIMEOUT_S = 60
WAITING_S = 0.3
"""Until a command that has begun its table waits for more."""


def test_a_folder_in_the_place_of_a_table_is_one_line(tmp_path: Path) -> None:
    write_trace(tmp_path / "t", [Request("fs", 0)])
    (tmp_path / "t" / "findings").write_text("in the way")
    succeed("classify", tmp_path / "t")
    message = f"tracekit: {tmp_path}/t/findings: File exists\n"
    assert typed("analyze", str(tmp_path / "t")) == (1, message)


def test_ctrl_c_while_the_program_is_loaded_is_silent() -> None:
    # GIVEN a program that is interrupted when a module of its own is looked for
    for module in ("tracekit.cli", "tracekit.commands.profiles"):
        script = f"""if True:
            import os, signal, sys
            def find(name, *_):
                if name == {module!r}:
                    os.kill(os.getpid(), signal.SIGINT)
            sys.meta_path.insert(0, type("Finder", (), dict(find_spec=staticmethod(find))))
            sys.argv[1:] = ["profiles"]
            from tracekit.__main__ import main
            main()
        """
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_a_full_disk_is_one_line() -> None:
    command = [sys.executable, "-m", "tracekit", "--help"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    advice = "  free some space, or work on another file system\n"
    assert (done.returncode, done.stderr) == (1, f"tracekit: No space left on device\n{advice}")


@pytest.mark.parametrize("rows", [10, 1_000_000])
def test_a_reader_who_goes_away_is_no_failure(tmp_path: Path, rows: int) -> None:
    write_trace(tmp_path / "t", [Request("fs", 0)])
    command = [sys.executable, "-m", "tracekit", "sql", str(tmp_path / "t")]
    command += [f"from range({rows})", "--format", "csv"]
    # WHEN its reader is gone before the first line, THEN the command ends in silence
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert (child.wait(TIMEOUT_S), child.stderr.read()) == (0, b"")


def test_closed_standard_streams_are_nothing_to_stumble_over(tmp_path: Path) -> None:
    # GIVEN a trace, and a shell that closes its streams
    write_trace(tmp_path / "t", [Request("fs", 0)])
    program = f"{sys.executable} -m tracekit"
    # WHEN something is read from and written to them, THEN it is empty or lost, and no traceback
    script = f"""
        {program} sql {tmp_path}/t 'select 1' >&- || exit 10
        {program} sql {tmp_path}/t <&- || exit 11
        {program} parse - -o {tmp_path}/new <&- && exit 12
        {program} parse - -o {tmp_path}/new <&- 2>&- && exit 13
        exit 0
    """
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        "tracekit: standard input: byte 0: empty, there is no record in it",
        "  capture again; the traced device may have had no I/O",
    ]


def test_only_errors_of_the_system_are_one_line() -> None:
    assert foreign_error(ValueError("a mistake")) is None
    assert foreign_error(KeyError("a")) is None
    # and a file may be known by its number only
    error = foreign_error(OSError(5, "Input/output error", 3))
    assert str(error) == "Input/output error"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_stopped_parse_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "tracekit", "parse", str(pipe), "-o", str(tmp_path / "out")]
    # Tests that run in the background of a shell have inherited that SIGINT is ignored.
    command = ["env", "--default-signal", *command]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as running, pipe.open("wb") as writer:
        _await(tmp_path, ".out.*")
        running.send_signal(number)
        assert running.wait(timeout=TIMEOUT_S) == 128 + number
        assert running.stderr is not None
        assert b"Traceback" not in running.stderr.read()
        writer.close()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.parametrize("verb", ["parse", "import"])
def test_waiting_for_a_pipe_amid_a_trace_can_be_stopped(tmp_path: Path, verb: str) -> None:
    # GIVEN a command that reads, and has read a part of a trace whose rest does not come
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "tracekit", verb, str(pipe), "-o", str(tmp_path / "out")]
    line = b"  8,0    1        1     0.000000001  1  Q   R %d + 8 [dd]\n"
    with (
        subprocess.Popen(["env", "--default-signal", *command], stderr=subprocess.PIPE) as running,
        pipe.open("wb") as writer,
    ):
        if verb == "import":
            writer.writelines(line % (8 * number) for number in range(50_000))
            writer.flush()
        _await(tmp_path, ".out.*/.requests.parquet.*")
        time.sleep(WAITING_S)
        # WHEN Ctrl-C is pressed, THEN it ends, and nothing is left
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=TIMEOUT_S) == 128 + signal.SIGINT
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_what_a_killed_parse_left_is_removed_by_the_next(tmp_path: Path) -> None:
    # GIVEN a parse that was killed, one that still runs, and somebody's own hidden file
    for name in ("killed", "alive"):
        os.mkfifo(tmp_path / name)
    output = tmp_path / "out"
    command = [sys.executable, "-m", "tracekit", "parse", "-o", str(output)]
    (tmp_path / ".out.mine").write_text("mine")
    with (
        subprocess.Popen([*command, str(tmp_path / "killed")], stderr=subprocess.PIPE) as killed,
        (tmp_path / "killed").open("wb"),
    ):
        [left] = _await(tmp_path, ".out.tracekit-*")
        killed.kill()
    with (
        subprocess.Popen([*command, str(tmp_path / "alive")], stderr=subprocess.PIPE) as alive,
        (tmp_path / "alive").open("wb") as writer,
    ):
        while left.exists():
            time.sleep(0.01)
        [own] = _await(tmp_path, ".out.tracekit-*")
        # WHEN another one with the same output runs
        assert (
            typed("parse", f"{tmp_path}/alive-not-there", str(tmp_path), "-o", str(output))[0] == 2
        )
        (tmp_path / "empty").write_bytes(b"")
        assert typed("parse", str(tmp_path / "empty"), "-o", str(output))[0] == 1
        # THEN it leaves the folder of the living one and the file of somebody else
        assert own.exists()
        assert (tmp_path / ".out.mine").exists()
        writer.close()
        alive.wait(timeout=TIMEOUT_S)
    assert list(tmp_path.glob(".out.tracekit-*")) == []


def test_writers_of_one_file_do_not_clean_up_each_other(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tracekit.store import write_json\n"
        "for number in range(300): write_json(Path(sys.argv[1]), {'number': number})"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "x.json")]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    for writer in writers:
        _, talk = writer.communicate(timeout=TIMEOUT_S)
        assert (writer.returncode, talk) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]
    assert json_of(tmp_path / "x.json") == {"number": 299}


def _await(folder: Path, pattern: str) -> list[Path]:
    deadline = time.monotonic() + TIMEOUT_S
    while not (found := list(folder.glob(pattern))):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


@pytest.mark.parametrize("command", ["analyze", "sql"])
def test_memory_beyond_any_machine_is_rejected(tmp_path: Path, command: str) -> None:
    write_trace(tmp_path / "t", [Request("fs", 0)])
    status, talk = typed(command, str(tmp_path / "t"), "--memory", f"{10**20}B")
    assert status == 2
    assert "--memory: '100000000000000000000B' is above 4 EiB" in talk
