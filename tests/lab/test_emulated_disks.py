"""Emulated disks in a guest whose time is counted by instructions: latency and depth."""

import json
from typing import Any

import pytest

from tests.lab.guests import lab, skip_unless_guests_run

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab-emulated")]
SINGLE_READS = """
import mmap, os, time
fd = os.open(open("/run/disk1").read().strip(), os.O_RDONLY | os.O_DIRECT)
page = mmap.mmap(-1, 4096)
times = []
for at in range(50):
    start = time.monotonic_ns(); os.preadv(fd, [page], at * 4096)
    times.append(time.monotonic_ns() - start)
print(sorted(times)[25])
"""
EIGHT_READERS = """
# The clock leaps while a program is read from the host's disk: do that before.
dd if=/dev/zero of=/dev/null count=1; date +%s%N > /dev/null
for disk in 0 1; do
  begin=$(date +%s%N)
  for reader in 1 2 3 4 5 6 7 8; do
    dd if=$(cat /run/disk$disk) of=/dev/null bs=4k count=10 skip=$((reader * 100)) iflag=direct &
  done
  wait
  echo $((($(date +%s%N) - begin) / 1000000))
done
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Read a disk of 5 ms that serves one request at a time, and one that serves many."""
    skip_unless_guests_run()
    share = tmp_path_factory.mktemp("share")
    (share / "single_reads.py").write_text(SINGLE_READS)
    ran = lab(
        *("run", "--exact", "--disk", "fs=64MiB:5ms:1", "--disk", "swap=64MiB:5ms"),
        *("--share", str(share), "--json"),
        *("--", "sh", "-c", f"exec 2> /dev/null; python3 single_reads.py; {EIGHT_READERS}"),
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_latencies_are_exact_under_icount(told: dict[str, Any]) -> None:
    # WHEN single blocks are read past the cache from a disk of 5 ms
    median_ns = int(told["stdout"].split()[0])
    # THEN the median is 5 ms and the path through the kernel
    assert told["accelerator"] == "icount"
    assert 5_000_000 < median_ns < 5_300_000


@pytest.mark.parametrize(("disk", "low_ms", "high_ms"), [(0, 400, 800), (1, 50, 300)])
def test_a_disk_serves_as_many_at_once_as_it_may(
    told: dict[str, Any], disk: int, low_ms: int, high_ms: int
) -> None:
    # GIVEN eight readers of ten blocks each, WHEN a block takes 5 ms
    # THEN they wait for each other, or do not
    assert low_ms <= int(told["stdout"].split()[1 + disk]) <= high_ms
