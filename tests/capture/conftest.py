"""The disk of the capture tests, and the lock that gives one test at a time the kernel's tracer."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.capture.machine import Disk, skip_unless_it_can_trace, small_disk, tracing_settings


@pytest.fixture(scope="session")
def made_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    skip_unless_it_can_trace()
    with small_disk(tmp_path_factory.mktemp("disk")) as made:
        yield made


@pytest.fixture
def disk(made_disk: Disk) -> Iterator[Disk]:
    # Tests run in several processes, and the tracer's settings are the whole machine's.
    with (Path(tempfile.gettempdir()) / "tracekit-tests-tracer.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if tracing_settings()["current_tracer"] != "nop":
            pytest.skip("the kernel's tracer is in use by something else")
        yield made_disk
