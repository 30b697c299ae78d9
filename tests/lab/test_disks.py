"""What --disk and --pmem mean, and what they refuse."""

import pytest

from tracekit.errors import UsageError
from tracekit.lab.machine import Disk, Part, dax_start_mib, parse_disks


def test_parts_of_one_latency_share_a_disk() -> None:
    # GIVEN three roles, two of the same latency
    disks = parse_disks(["fs=2GiB", "journal=256MiB:108us", "swap=512M"])
    # THEN there are two disks, in the order of their first parts
    assert disks == [
        Disk((Part("fs", 2048, 0), Part("swap", 512, 0))),
        Disk((Part("journal", 256, 108_000),)),
    ]
    # AND each has a MiB at both ends for the partition table
    assert [disk.mib for disk in disks] == [2562, 258]
    assert [disk.latency_ns for disk in disks] == [0, 108_000]


def test_parts_of_another_depth_are_on_another_disk() -> None:
    # GIVEN two parts of one latency, one of which serves one request at a time
    disks = parse_disks(["fs=1G:5ms:1", "journal=64M:5ms"])
    # THEN there are two disks; without a depth it is that of the kernel's driver
    assert [(disk.latency_ns, disk.depth) for disk in disks] == [(5_000_000, 1), (5_000_000, 64)]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["fs"], "'fs' is no disk"),
        (["data=1G"], "'data=1G' is no disk"),
        (["fs=1G", "fs=2G"], "fs is given twice"),
        (["journal=64M"], "a journal without a file system"),
        (["fs=1G", "journal=1M"], "journal of 1M: from 4 MiB"),
        (["fs=0"], "fs of 0: from 16 MiB"),
        (["fs=1G:"], "'' is not a time"),
        (["fs=1G:0us"], "a latency of 0us"),
        (["fs=1G:2s"], "a latency of 2s"),
        (["fs=1G:fast"], "'fast' is not a time"),
        (["fs=1G:5ms:"], "a depth of ''"),
        (["fs=1G:5ms:0"], "a depth of '0'"),
        (["fs=1G:5ms:1025"], "a depth of '1025'"),
        (["fs=1G:5ms:+1"], "a depth of '\\+1'"),
        (["fs=/dev/sda"], "'/dev/sda' is not a size"),
        (["fs=16T"], "fs of 16T: from 16 MiB to 4 TiB"),
    ],
)
def test_what_is_no_disk_is_named(texts: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_disks(texts)


@pytest.mark.parametrize(
    ("dax_mib", "memory_mib", "start_mib"),
    [(256, 1024, 512), (1024, 768, 512), (1025, 2304, 4096), (8192, 4096, 4096)],
)
def test_persistent_memory_lies_in_one_piece_of_real_memory(
    dax_mib: int, memory_mib: int, start_mib: int
) -> None:
    # WHEN it is placed
    assert dax_start_mib(dax_mib, memory_mib) == start_mib
    # THEN it is inside of what q35 has there: all below 4 GiB, or 2 GiB and the rest above
    total_mib = dax_mib + memory_mib
    is_split = total_mib >= 2816
    end_below_mib = 2048 if is_split else total_mib
    end_mib = end_below_mib if start_mib < 4096 else 4096 + total_mib - 2048
    assert start_mib + dax_mib + 256 <= end_mib


@pytest.mark.parametrize(("dax_mib", "memory_mib"), [(256, 512), (2048, 1024)])
def test_persistent_memory_that_does_not_fit_is_refused(dax_mib: int, memory_mib: int) -> None:
    with pytest.raises(UsageError, match=f"--pmem of {dax_mib} MiB does not fit"):
        dax_start_mib(dax_mib, memory_mib)
