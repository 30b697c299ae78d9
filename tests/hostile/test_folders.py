"""Every command on folders that somebody made with intent: an error of one line, or an answer."""

import faulthandler
import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tracekit as tk
from tests.command_line import invoke
from tests.hostile.things import THINGS
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
