"""A disk without a queue of its own (zram here; dm and md are others): its requests are told."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.capture.machine import (
    CAPTURE,
    TIMEOUT_S,
    TRACER,
    read_layout,
    skip_unless_it_can_trace,
    tracer_turn,
)
from tracekit.readers.blktrace import parse
from tracekit.store import TraceFolder

pytestmark = pytest.mark.root
CONTROL = Path("/sys/class/zram-control")


@pytest.fixture
def memory_disk() -> Iterator[Path]:
    """Make a disk of 16 MiB of compressed memory."""
    skip_unless_it_can_trace()
    if not CONTROL.is_dir():
        pytest.skip("needs zram")
    number = (CONTROL / "hot_add").read_text().strip()
    folder = Path(f"/sys/block/zram{number}")
    try:
        (folder / "disksize").write_text(str(16 << 20))
        yield Path(f"/dev/zram{number}")
    finally:
        end_s = time.monotonic() + TIMEOUT_S
        while folder.is_dir():
            try:
                (folder / "reset").write_text("1")
                (CONTROL / "hot_remove").write_text(number)
            except OSError:  # udev may still look at what is on it
                if time.monotonic() > end_s:
                    raise
                time.sleep(0.1)


def test_its_requests_are_queued_and_completed_and_never_issued(
    memory_disk: Path, tmp_path: Path
) -> None:
    load = ["dd", "if=/dev/zero", f"of={memory_disk}", "bs=4k", "count=100", "oflag=direct"]
    # WHEN a load on it is captured
    with tracer_turn():
        subprocess.run(
            [*CAPTURE, str(memory_disk), "-o", str(tmp_path / "c"), *TRACER, "--", *load],
            check=True,
            capture_output=True,
        )
    # THEN the layout says that nothing schedules its requests
    assert read_layout(tmp_path / "c")["devices"][0]["scheduler"] == "none"
    # AND all of them are in the trace
    parse([tmp_path / "c"], tmp_path / "trace")
    requests = TraceFolder(tmp_path / "trace").require("requests", made_by="parse")
    rows = pq.read_table(requests).filter(pc.field("process") == "dd")
    assert rows["sector"].to_pylist() == [8 * number for number in range(100)]
    assert rows["complete_ns"].null_count == 0
    assert rows["issue_ns"].null_count == 100
