"""How the tests are run: the long ones first, and a worker more than there are processors."""

import fcntl
import gc
import os
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FAILED = list[str]()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Remove the partitions that free loop devices have kept of files that are no longer theirs.

    Whoever takes such a device next would have them, and capture and replay see them.
    """
    if hasattr(session.config, "workerinput") or os.geteuid() != 0:
        return
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
    """Return how many workers `-n auto` starts: some tests wait for disks, signals and times."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test that others would see on no other worker's side, nor on another run's.

    Who wants to be alone holds the turn until all others have ended, so that none begins meanwhile.
    """
    is_alone = item.get_closest_marker("alone") is not None
    place = Path(tempfile.gettempdir()) / f"tracekit-tests-{os.geteuid()}"
    with open(f"{place}.turn", "w") as turn, open(f"{place}.use", "w") as use:
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(use, fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH)
        fcntl.flock(turn, fcntl.LOCK_UN)
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one worker run the tests that share what their module makes, the slow ones first."""
    for item in items:
        assert isinstance(item, pytest.Function)
        fixtures = item._fixtureinfo.name2fixturedefs.values()
        has_group = item.get_closest_marker("xdist_group") is not None
        if not has_group and any(one.scope == "module" for found in fixtures for one in found):
            item.add_marker(pytest.mark.xdist_group(f"{item.path.parent.name}-{item.path.stem}"))
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    """Let collections pass over the modules and tests, which stay until the end."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let what was kept go before Python ends, for DuckDB reports it as leaked."""
    gc.unfreeze()
