"""What fails while a capture runs hurts no program, and loses no record: one of each kind."""

from pathlib import Path

import pytest

from tests.capture.faults import FAULTS, WRITES, fault
from tests.capture.machine import Disk
from tracekit.capture import programs

pytestmark = pytest.mark.root


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault(disk: Disk, tmp_path: Path, name: str) -> None:
    if name == "perf killed" and (why := programs.probe_perf()):
        pytest.skip(why)
    # WHEN it happens amid a capture
    found = fault(name, disk, tmp_path / "case", seed=len(name))
    # THEN the program is not hurt, no record is lost, and nothing is left
    said = (tmp_path / "case/messages").read_text()
    assert (found.hurt, found.lost, found.left) == (False, 0, False), f"{found}: {said}"
    assert found.kept > 0
    if name in ("kill", "kill at the end", "pause"):
        assert found.kept >= WRITES
