"""Control groups for processes of a test; every one is removed again."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

GONE_S = 10.0


def _own_folder(controller: str) -> Path:
    """Return the folder of this process's group of version 1, from the kernel's own lists."""
    groups = dict.fromkeys(Path("/proc/self/cgroup").read_text().split())
    group = next((g.split(":", 2)[2] for g in groups if f":{controller}:" in g), None)
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split()[:3]
        if kind == "cgroup" and controller in options.split(",") and group is not None:
            root, point = fields.split()[3:5]
            return Path(point) / group.removeprefix(root).lstrip("/")
    pytest.skip(f"needs control groups of version 1 with {controller}")


@contextmanager
def limited_group(
    controller: str, setting: str, value: int, *, below: str = ""
) -> Iterator[tuple[Path, Callable[[], None]]]:
    """Yield the file of a limit, and what puts a child before it begins under that limit.

    With `below` the child's own group is one of that name below the one with the limit.
    """
    group = _own_folder(controller) / f"tracekit-test-{os.getpid()}"
    inner = group / below
    try:
        inner.mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"needs to make a control group: {error}")
    try:
        (group / setting).write_text(str(value))
        yield group / setting, lambda: _enter(inner)
    finally:
        end_s = time.monotonic() + GONE_S
        while (inner / "cgroup.procs").read_text() and time.monotonic() < end_s:
            time.sleep(0.02)  # one that was killed goes when the kernel has reaped it
        for folder in dict.fromkeys((inner, group)):
            folder.rmdir()


def _enter(group: Path) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()))
