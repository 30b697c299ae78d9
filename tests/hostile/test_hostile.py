"""What somebody made with intent, and the user names: an error of one line, or an answer."""

import faulthandler
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tracekit as tk
from tests.command_line import invoke
from tests.hostile.things import THINGS
from tests.report.folder import make_folder
from tests.report.golden import full_folder
from tracekit.errors import TracekitError, foreign_error
from tracekit.store import TraceFolder

SECONDS = 120
LINES = {
    "sql": "sql {trace}|select count(*) from requests",
    "classify": "classify {trace}",
    "analyze": "analyze {trace}",
    "recommend": "recommend {trace}",
    "endurance": "simulate endurance {trace}",
    "tiers": "simulate tiers {trace}",
    "verify": "verify-placement {trace} --target {place}/target --dry-run",
    "replay": "replay {trace} --name new --dry-run --target null:",
    "played": "replay {trace} --name new --pace fast --target null:",
    "over": "replay {trace} --name file --force --pace fast --target null:",
    "resume": "replay {trace} --name new --resume file --target null:",
    "compare": "compare {trace} trace file",
    "export": "export {trace} --format fio -o {place}/out.log",
    "counters": "counters --from {place}/counts --workload a -o {trace}",
}


def act(command: str, place: Path) -> BaseException | None:
    """Run a command on the folder `trace` of a place; return the error that it ended with."""
    trace = place / "trace"
    if command == "figures":
        # What a report reads and computes: drawing takes nearly all of its time.
        try:
            tk.open(trace).figures()
        except Exception as error:
            return error
        return None
    (place / "counts").write_text("100,,cycles,1,100.00,,\n")
    words, _, statement = LINES[command].format(trace=trace, place=place).partition("|")
    return invoke(*words.split(), *filter(None, [statement])).exception


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> TraceFolder:
    """Return a folder with all that a report can show."""
    return full_folder(tmp_path_factory)


@pytest.fixture(autouse=True)
def deadline() -> Iterator[Callable[[], None]]:
    """Let each command have some seconds; one that waits in C ends the tests."""

    def begin() -> None:
        faulthandler.dump_traceback_later(SECONDS, exit=True)

    yield begin
    faulthandler.cancel_dump_traceback_later()


def state(folder: Path) -> dict[str, object]:
    """Return what is in a folder, links not followed."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else oct(path.lstat().st_mode)
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("name", THINGS)
def test_no_command_hangs_fails_or_writes_outside(
    whole: TraceFolder, tmp_path: Path, deadline: Callable[[], None], name: str
) -> None:
    make, commands = THINGS[name]
    wrong = []
    for command in commands.split():
        # GIVEN a folder that is whole but for one thing, and one beside it
        place = tmp_path / command
        outside = place / "outside"
        outside.mkdir(parents=True)
        (outside / "precious").write_text("precious")
        shutil.copytree(whole.path, place / "trace")
        make(place / "trace", outside)
        before = state(outside)
        # WHEN a command reads it
        deadline()
        error = act(command, place)
        # THEN it ends well or with a line that says what is wrong, and wrote nothing outside
        is_ours = isinstance(error, TracekitError | SystemExit | None)
        if not is_ours and isinstance(error, Exception) and foreign_error(error) is None:
            wrong.append(f"{command}: {error!r:.200}")
        if state(outside) != before:
            wrong.append(f"{command}: changed {state(outside).keys() ^ before.keys()} outside")
    assert not wrong


def fails(*words: str | Path) -> str:
    """Run a command that must end with an error of one line; return it."""
    error = invoke(*words).exception
    assert error is not None
    assert "\n" not in str(error)
    return str(error)


@pytest.mark.parametrize("name", ["x.blktrace.0", "x.perf.txt", "octf.trace.0", "layout.json"])
def test_a_pipe_in_the_folder_of_a_capture_is_not_waited_for(tmp_path: Path, name: str) -> None:
    capture = tmp_path / "capture"
    capture.mkdir()
    (capture / "x.blktrace.0").touch()
    (capture / name).unlink(missing_ok=True)
    if name != "layout.json":
        (capture / "x.blktrace.0").unlink(missing_ok=True)
    os.mkfifo(capture / name)
    assert fails("parse", capture, "-o", tmp_path / "out") == f"{capture / name} is a pipe"
    assert not (tmp_path / "out").exists()


def test_a_link_in_the_folder_of_a_capture_is_not_followed(tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    capture.mkdir()
    (capture / "x.blktrace.0").symlink_to("/etc/passwd")
    place = capture / "x.blktrace.0"
    assert fails("parse", capture, "-o", tmp_path / "out") == f"{place} is a symbolic link"


def test_an_expression_takes_time_in_proportion_to_the_text(tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("1.5 R 8 8\n" * 3 + "a" * 20_000 + "b\n")
    # Python's own engine would take longer than the universe for the last line.
    expression = r"(?:(?P<time>[0-9.]+) (?P<op>[RW]) (?P<sector>\d+) (?P<sectors>\d+)|(?:a+)+$)"
    begin = time.process_time()
    invoke("import", lines, "--regex", expression, "-o", tmp_path / "out")
    assert time.process_time() - begin < 20


def test_a_profile_nested_too_deeply_is_an_error(tmp_path: Path) -> None:
    profiles = tmp_path / "deep.toml"
    profiles.write_text("[disk]\nread_us = " + "[" * 5_000 + "]" * 5_000 + "\n")
    trace = make_folder(tmp_path / "trace", stages=("classify",))
    error = fails("recommend", trace.path, "--profiles", profiles)
    assert str(profiles) in error
    assert "nested" in error


@pytest.mark.parametrize("name", ["requests", "REQUESTS", "blocks"])
def test_a_finding_cannot_stand_in_for_a_table(tmp_path: Path, name: str) -> None:
    trace = make_folder(tmp_path / "trace", stages=("classify",))
    (trace.path / "findings").mkdir(exist_ok=True)
    finding = trace.path / f"findings/{name}.parquet"
    shutil.copy(trace.table("working_set"), finding)
    error = fails("sql", trace.path, "select count(*) from requests")
    assert error.startswith(f"{finding}: a finding cannot have the name")
