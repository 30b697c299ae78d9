"""How the tests are run: in which order, by how many workers; and folders that many of them use."""

import fcntl
import gc
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.privileges.others import other_folder
from tests.replay.disk import small_file_system
from tracekit.capture.recovery import give_back_settings
from tracekit.errors import TracekitError

ROOT = Path(__file__).parent.parent
FAILED = list[str]()
TAKEN: dict[int, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGQUIT: signal.SIG_DFL,
    signal.SIGHUP: lambda *_: None,
}
PLAYS_NOTHING = (
    *("simulate", "capture", "import_", "analyzers", "decode", "classify", "layout", "parse"),
)
"""Folders whose tests replay nothing, so that who uses a target does not matter to them."""


def pytest_configure() -> None:
    """Take the signals that a script's jobs in the background ignore, or nohup's: so would ours.

    A hangup still ends no test run that ignores it, but what a test starts.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, TAKEN[number])


def pytest_sessionstart(session: pytest.Session) -> None:
    """Remove what runs left that were killed: partitions of loop devices, settings of the tracer.

    Free loop devices keep partitions of files that are no longer theirs: whoever takes such a
    device next would have them, and capture and replay see them.
    """
    if hasattr(session.config, "workerinput") or os.geteuid() != 0:
        return
    with suppress(TracekitError):  # a capture runs
        for note in give_back_settings()[0]:
            sys.stderr.write(f"{note}\n")
    for disk in Path("/sys/block").glob("loop*"):
        if not (disk / "loop").exists() and any(disk.glob("loop*p*")):
            words = ("partx", "--delete", f"/dev/{disk.name}")
            subprocess.run(words, capture_output=True, check=False)  # in use: not ours to remove


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep which tests failed: `.ci/again` tries them alone."""
    if report.failed:
        FAILED.append(report.nodeid.partition("@")[0])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write which tests failed, those of all workers."""
    if not hasattr(session.config, "workerinput") and (folder := ROOT / "build").is_dir():
        lines = "".join(f"{name}\n" for name in dict.fromkeys(FAILED))
        (folder / "failed-tests.txt").write_text(lines)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many workers `-n auto` starts: one captures, others wait for disks and times."""
    return len(os.sched_getaffinity(0)) + 2


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test that players of others would see beside none of them, nor of another run.

    Who wants to be alone holds the turn until all others have ended, so that none begins meanwhile.
    """
    is_alone = item.get_closest_marker("alone") is not None
    if item.path.parent.name in PLAYS_NOTHING and not is_alone:
        return (yield)
    place = Path(tempfile.gettempdir()) / f"tracekit-tests-{os.geteuid()}"
    with open(f"{place}.turn", "w") as turn, open(f"{place}.use", "w") as use:
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(use, fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH)
        fcntl.flock(turn, fcntl.LOCK_UN)
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one worker run the tests that share what their module makes, or that wait for each other.

    Those that capture wait for the tracer and use little of a processor: the first worker does them
    while others do the rest. Those that are alone come when what is left can run beside them.
    """
    for item in items:
        assert isinstance(item, pytest.Function)
        # In the modules of captures the disk is what needs it, and some tests have none.
        marks = item.own_markers if item.path.parent.name == "capture" else item.iter_markers()
        if os.geteuid() != 0 and any(mark.name == "root" for mark in marks):
            item.add_marker(pytest.mark.skip(reason="needs root"))
        fixtures = item._fixtureinfo.name2fixturedefs.values()
        if item.get_closest_marker("xdist_group") is not None:
            pass
        elif item.get_closest_marker("alone") is not None:
            item.add_marker(pytest.mark.xdist_group("alone"))
        elif item.path.parent.name == "capture":
            item.add_marker(pytest.mark.xdist_group("kernel"))
        elif any(one.scope == "module" for found in fixtures for one in found):
            item.add_marker(pytest.mark.xdist_group(f"{item.path.parent.name}-{item.path.stem}"))
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> tuple[bool | int, ...]:
    """Return what tests are sorted by: those that capture, slow ones, replays, the rest."""
    group = item.get_closest_marker("xdist_group")
    name, folder = group.args[0] if group else "", item.path.parent.name
    beside_alone = folder in PLAYS_NOTHING
    return (
        name != "kernel",
        item.get_closest_marker("slow") is None,
        beside_alone,
        name == "alone",
        PLAYS_NOTHING.index(folder) if beside_alone else 0,
        not name,
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a file system of 4 MiB."""
    with small_file_system(tmp_path / "small") as place:
        yield place


@pytest.fixture
def theirs() -> Iterator[Path]:
    """Yield a folder of another user."""
    with other_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def own_root() -> None:
    """Skip in a chroot: the kernel and other mount namespaces name files from another root."""
    words = ["nsenter", "--mount=/proc/self/ns/mnt", "stat", "--format=%d:%i", "/"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    root = os.stat("/")
    if done.returncode == 0 and done.stdout.strip() != f"{root.st_dev}:{root.st_ino}":
        pytest.skip("needs a root that is its mount namespace's: this is a chroot")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return an empty folder in which a captured command runs."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no cycles while tests are collected, nearly all of which stays: a fifth of the time.

    Each worker collects all tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Let collections pass over the modules and tests, which stay until the end."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let what was kept go before Python ends, for DuckDB reports it as leaked."""
    gc.unfreeze()
