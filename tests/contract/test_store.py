"""Outputs are whole and nobody else's is replaced; one command at a time writes to a folder."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import tracekit as tk
from tests.simulate.placement_models import Request, write_trace
from tests.traces import json_of
from tracekit.durable import exchange, rename_new
from tracekit.errors import TracekitError, UsageError
from tracekit.locks import folder_lock
from tracekit.store import beside, changed_folder, new_folder, write_json

TIMEOUT_S = 60
HERE = "was made by somebody else meanwhile"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tracekit", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)


def made(folder: Path, text: str) -> Path:
    """Make a trace folder of ours with this text in it."""
    with new_folder(folder) as part:
        (part / "trace.json").write_text(text)
    return folder


def content(path: Path) -> str:
    return (path / "trace.json" if path.is_dir() else path).read_text()


def test_a_folder_that_the_captured_command_makes_stays(tmp_path: Path) -> None:
    # GIVEN a command that makes a folder of the name that the capture is to have
    out = tmp_path / "out"
    script = f"mkdir {out}; echo precious > {out}/result.csv"
    # WHEN its file operations are captured
    done = run("capture", "--files", "-o", out, "--", "sh", "-c", script)
    if "file operations cannot be captured" in done.stderr:
        pytest.skip(done.stderr)
    # THEN its folder stays, and the capture is beside it
    assert done.returncode == 1
    assert f"{out} {HERE}: it stays, and the result is {out}-2" in done.stderr
    assert (out / "result.csv").read_text() == "precious\n"
    assert (tmp_path / "out-2" / "file_operations.parquet").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out-2"]


def make_while(act: Callable[[], object], out: Path, *, overwrite: bool = False) -> None:
    """Make a folder of ours, or a file, while somebody does something else."""
    if out.suffix:
        with beside(out, overwrite=overwrite) as part:
            part.write_text("ours")
            act()
        return
    with new_folder(out, overwrite=overwrite) as part:
        (part / "trace.json").write_text("ours")
        act()


def make_folder(folder: Path, file: str = "trace.json") -> None:
    folder.mkdir()
    (folder / file).write_text("theirs")


MEANWHILE: dict[str, Callable[[Path], object]] = {
    "folder": make_folder,
    "empty folder": Path.mkdir,
    "file": lambda out: out.write_text("theirs"),
    "link": lambda out: out.symlink_to("nowhere"),
}


@pytest.mark.parametrize("name", ["out", "out.csv"])
@pytest.mark.parametrize("kind", MEANWHILE)
def test_what_somebody_makes_meanwhile_stays(tmp_path: Path, kind: str, name: str) -> None:
    # GIVEN an output whose name somebody takes before it is whole, and the next name, too
    out = tmp_path / name
    (tmp_path / name.replace("out", "out-2")).mkdir()
    kept = tmp_path / name.replace("out", "out-3")
    # WHEN it gets its name, THEN theirs stays, and it is beside it
    with pytest.raises(TracekitError, match=f"{name} {HERE}.*{kept}$"):
        make_while(lambda: MEANWHILE[kind](out), out)
    assert content(kept) == "ours"
    assert out.is_symlink() == (kind == "link")
    if kind in ("file", "folder"):
        assert content(out) == "theirs"
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("file", ["trace.json", "other"])
def test_another_folder_in_the_place_of_the_earlier_one_stays(tmp_path: Path, file: str) -> None:
    # GIVEN an earlier result, which somebody moves away while it is to be replaced
    out = made(tmp_path / "out", "earlier")

    def move() -> None:
        out.rename(tmp_path / "moved")
        make_folder(out, file)

    with pytest.raises(TracekitError, match=HERE):
        make_while(move, out, overwrite=True)
    # THEN both are as they were
    assert content(tmp_path / "moved") == "earlier"
    assert [path.read_text() for path in out.iterdir()] == ["theirs"]
    assert content(tmp_path / "out-2") == "ours"


def test_an_earlier_result_that_is_no_longer_ours_stays(tmp_path: Path) -> None:
    out = made(tmp_path / "out", "earlier")
    with pytest.raises(TracekitError, match=HERE):
        make_while(lambda: (out / "trace.json").rename(out / "mine"), out, overwrite=True)
    assert (out / "mine").read_text() == "earlier"


def test_what_comes_into_a_folder_that_is_changed_stays(tmp_path: Path) -> None:
    # GIVEN a folder of three files, of which two are made anew
    folder = tmp_path / "findings"
    folder.mkdir()
    for name in ("mine", "new", "old"):
        (folder / name).write_text("earlier")
    with changed_folder(folder) as part:
        for name in ("new", "old"):
            with beside(part / name) as file:
                file.write_text("ours")
        # WHEN somebody adds a file and a folder meanwhile and replaces two of the three
        (folder / "deep").mkdir()
        for name in ("added", "deep/added", "mine", "new"):
            (tmp_path / "theirs").write_text("theirs")
            (tmp_path / "theirs").rename(folder / name)
    # THEN all of it is in the new folder, and nothing beside it
    found = {str(f.relative_to(folder)): f.read_text() for f in folder.rglob("*") if f.is_file()}
    theirs = dict.fromkeys(("added", "deep/added", "mine", "new-2"), "theirs")
    assert found == theirs | {"new": "ours", "old": "ours"}
    assert [path.name for path in tmp_path.iterdir()] == ["findings"]


def test_a_folder_does_not_give_way_to_a_file(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    with pytest.raises(TracekitError, match=HERE):
        make_while(out.mkdir, out, overwrite=True)
    assert out.is_dir()
    assert content(tmp_path / "out-2.json") == "ours"


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_link_that_is_the_output_stays(tmp_path: Path, overwrite: bool) -> None:
    # GIVEN a link to a place for the result, with an earlier result if that is to be replaced
    place = tmp_path / "disk" / "place"
    if overwrite:
        made(place, "earlier")
    (tmp_path / "out").symlink_to(place)
    # WHEN the link is to be the result, and leads elsewhere before that is whole
    with new_folder(tmp_path / "out", overwrite=overwrite) as part:
        (part / "trace.json").write_text("new")
        (tmp_path / "out").unlink()
        (tmp_path / "out").symlink_to("elsewhere")
    # THEN the result is where it led at the start
    assert content(place) == "new"
    assert os.readlink(tmp_path / "out") == "elsewhere"
    assert [path.name for path in place.parent.iterdir()] == ["place"]


def test_a_link_to_a_file_stays(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "link.json").symlink_to("real.json")
    write_json(tmp_path / "link.json", {"new": 1})
    assert (tmp_path / "link.json").is_symlink()
    assert json_of(tmp_path / "real.json") == {"new": 1}


@pytest.mark.parametrize("name", ["findings", "report.html", "simulations/tiers.json"])
def test_no_link_in_a_trace_folder_leads_out(tmp_path: Path, name: str) -> None:
    # GIVEN a trace folder of somebody with a link to a place of the user
    folder = write_trace(tmp_path / "t", [Request("fs", 0)])
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    link = folder / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside / "precious" if link.suffix else outside)
    place = link if link.suffix else link / "totals.json"
    # WHEN something is written there, THEN it is refused before anything is made
    with pytest.raises(UsageError, match="leads out of the trace folder"):
        write_json(place, {})
    assert [path.read_text() for path in outside.iterdir()] == ["precious"]
    # AND a link within the folder is followed
    link.unlink()
    (folder / "own").mkdir()
    link.symlink_to(folder / "own" / "x.json" if link.suffix else folder / "own")
    write_json(place, {"a": 1})
    assert [json_of(path) for path in (folder / "own").iterdir()] == [{"a": 1}]


def test_the_name_is_never_missing_while_a_folder_is_replaced(tmp_path: Path) -> None:
    # GIVEN somebody who looks for the folder all the time
    out = made(tmp_path / "out", "0")
    seen: set[str] = set()
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            try:
                seen.add(content(out))
            except FileNotFoundError:
                seen.add("in a folder that was replaced" if out.is_dir() else "missing")

    looking = threading.Thread(target=look)
    looking.start()
    # WHEN it is replaced a hundred times
    for number in range(1, 101):
        with new_folder(out, overwrite=True) as part:
            (part / "trace.json").write_text(str(number))
    ended.set()
    looking.join()
    # THEN its name was always there
    assert "missing" not in seen
    assert len(seen) > 10
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


PROGRAM = """
import sys; from pathlib import Path; from tracekit.store import new_folder
with new_folder(Path(sys.argv[1]), overwrite=sys.argv[2] == "replace") as part:
    (part / "trace.json").write_text("new")
    (part / "sub").mkdir()
    (part / "sub/x").write_text("x")
"""


def traced(folder: Path, kind: str, *options: str) -> list[str]:
    """Make `out` in a process under strace; return its calls that name, sync or remove."""
    log = folder / "calls"
    words = ["strace", "-f", "-y", "-e", "trace=fsync,rename,renameat,renameat2,unlinkat,rmdir"]
    program = [sys.executable, "-c", PROGRAM, str(folder / "out"), kind]
    try:
        done = subprocess.run(
            [*words, *options, "-o", str(log), *program],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("this machine has no strace")
    assert done.returncode == 0, done.stderr
    # -y shows the name behind each number
    text = re.sub(r"AT_FDCWD<.*?>", "", log.read_text()).replace(str(folder), "")
    log.unlink()
    text = re.sub(r"\.out\.tracekit-[0-9a-f-]+", "PART", text)
    calls = re.findall(r"(fsync|renameat2|unlinkat|rmdir)\((.*)\) += 0", text)
    return [" ".join([call, *re.findall(r"[<\"](.*?)[>\"]", rest)]) for call, rest in calls]


def test_all_is_on_the_disk_before_it_has_its_name(tmp_path: Path) -> None:
    # WHEN a folder is made, THEN its content is synced, it gets its name, and that is synced
    calls = traced(tmp_path, "new")
    content = ["fsync /PART/sub/x", "fsync /PART/sub", "fsync /PART/trace.json", "fsync /PART"]
    assert calls == [*content, "renameat2 /PART /out", "fsync "]
    # WHEN it is replaced, THEN the earlier one is removed after that
    calls = traced(tmp_path, "replace")
    assert calls[:6] == [*content, "renameat2 /PART /out", "fsync "]
    assert len(calls[6:]) >= 4
    assert all(re.match("(unlinkat|rmdir) /PART", call) for call in calls[6:])


@pytest.mark.parametrize("error", ["EINVAL", "ENOSYS"])
def test_a_file_system_without_such_renames(tmp_path: Path, error: str) -> None:
    # GIVEN a file system whose renames have no flags
    made(tmp_path / "out", "earlier")
    (tmp_path / "out" / "deep").mkdir()
    inject = ("-e", f"inject=renameat2:error={error}")
    # WHEN a folder is replaced, and one is made, THEN it is as elsewhere
    traced(tmp_path, "replace", *inject)
    assert content(tmp_path / "out") == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    (tmp_path / "out").rename(tmp_path / "first")
    traced(tmp_path, "new", *inject)
    assert content(tmp_path / "out") == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "out"]


def test_hidden_names_that_are_not_exactly_ours_stay(tmp_path: Path) -> None:
    # GIVEN what a killed command left, and what only looks like it
    left = [".out.tracekit-1-0123abcd", ".out.tracekit-77-ffffffff"]
    others = [
        *(".out.tracekit-1-0123abcd.bak", ".out.tracekit-x-0123abcd", ".out.tracekit-1-123"),
        *(".out.tracekit-1-0123ABCD", ".other.tracekit-1-0123abcd", ".out.tracekit-notes"),
    ]
    for name in (*left, *others):
        (tmp_path / name).mkdir()
    (tmp_path / ".out.tracekit-5-aaaaaaaa").symlink_to(others[0])
    os.mkfifo(tmp_path / ".out.tracekit-6-bbbbbbbb")
    kept = [*others, ".out.tracekit-5-aaaaaaaa", ".out.tracekit-6-bbbbbbbb"]
    if os.geteuid() == 0:
        (tmp_path / ".out.tracekit-7-cccccccc").mkdir()
        os.chown(tmp_path / ".out.tracekit-7-cccccccc", 65534, 65534)
        kept.append(".out.tracekit-7-cccccccc")
    # WHEN the next one of that name is made, THEN only the former go
    made(tmp_path / "out", "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, "out"])


def test_a_failure_leaves_the_earlier_folder(tmp_path: Path) -> None:
    out = made(tmp_path / "out", "earlier")
    with suppress(ZeroDivisionError), new_folder(out, overwrite=True) as part:
        (part / "trace.json").write_text("half")
        raise ZeroDivisionError
    assert content(out) == "earlier"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_names_are_given_and_exchanged(tmp_path: Path) -> None:
    one, other = made(tmp_path / "one", "1"), made(tmp_path / "other", "2")
    exchange(one, other)
    assert (content(one), content(other)) == ("2", "1")
    with pytest.raises(FileExistsError):
        rename_new(one, other)
    with pytest.raises(FileNotFoundError):
        rename_new(tmp_path / "missing", tmp_path / "new")


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
