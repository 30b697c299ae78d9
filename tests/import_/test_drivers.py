"""Events of NVMe, SCSI and UFS: recorded beside block events, as published, and by the standard."""

import lzma
import re
from collections import Counter

import pytest

from tests import parsed as traces
from tests.import_.examples import RECORDED
from tests.import_.importer import Importer
from tests.parsed import requests
from tracekit.store import TraceFolder

DISKS = {"nvme0n1": "259,0", "nvme1n1": "259,1", "sda": "8,0"}
BLOCK_EVENT = re.compile(
    r"([0-9.]+): +(?:\d+ +)?(?:block:)?block_rq_(issue|complete): (\d+,\d+) (\w+) (?:\d+ )?\(.*?\)"
    r" (\d+) \+ (\d+)"
)
Place = tuple[str, int, int, bool]
"""Operation, sector, bytes, whether it is FUA."""
LETTERS = {"R": "read", "W": "write", "N": "write"}
CLOCK_NS = 30_000_000
"""An emulated processor takes so long, rarely, from an event of one layer to that of the other."""


def recorded(name: str) -> str:
    """Return a text of tests/import_/record_drivers.py."""
    return lzma.decompress((RECORDED / f"{name}.txt.xz").read_bytes()).decode()


def lines_of(text: str, *, block: bool) -> str:
    """Return the lines of block events, or the others."""
    return "".join(f"{one}\n" for one in text.splitlines() if ("block_rq" in one) == block)


def block_times(text: str, device: str) -> dict[str, dict[Place, list[int]]]:
    """Return when requests with a place were issued and completed, by the block events."""
    found: dict[str, dict[Place, list[int]]] = {"issue": {}, "complete": {}}
    for time, step, of, rwbs, sector, sectors in BLOCK_EVENT.findall(text):
        letter = rwbs[1] if rwbs[0] == "F" and rwbs != "FF" else rwbs[0]
        if of == device and letter in LETTERS and int(sectors):
            place = (LETTERS[letter], int(sector), int(sectors) * 512, "F" in rwbs[1:])
            found[step].setdefault(place, []).append(round(float(time) * 1e9))
    return found


def driver_times(folder: TraceFolder) -> dict[str, dict[Place, list[int]]]:
    """Return the same of an imported trace."""
    base = folder.content["clock"]["base_ns"]
    found: dict[str, dict[Place, list[int]]] = {"issue": {}, "complete": {}}
    for row in requests(folder).to_pylist():
        if row["operation"] != "discard":
            place = (row["operation"], row["sector"], row["length_bytes"], row["is_fua"])
            found["issue"].setdefault(place, []).append(base + row["issue_ns"])
            found["complete"].setdefault(place, []).append(base + row["complete_ns"])
    return found


@pytest.mark.parametrize(
    ("disk", "by", "block_bytes", "unreadable"),
    [
        ("nvme0n1", "ftrace", None, 0),
        ("nvme1n1", "ftrace", 4096, 0),
        ("sda", "ftrace", None, 0),
        ("nvme0n1", "perf", None, 2),
        ("sda", "perf", None, 2),
    ],
)
def test_commands_are_the_requests_of_the_block_events(
    read: Importer, disk: str, by: str, block_bytes: int | None, unreadable: int
) -> None:
    # GIVEN what the kernel traced of its block layer and of a driver at once; perf prints what it
    # cannot print so as bytes, and the first two as a text that a zero ends
    text = recorded(f"{disk}.{by}")
    truth = block_times(text, DISKS[disk])
    # WHEN the events of the driver alone are imported
    folder = read(lines_of(text, block=False), page_bytes=block_bytes)
    # THEN the requests are the same, at about the same times, but for discards
    own = driver_times(folder)
    for step in ("issue", "complete"):
        missing = Counter({place: len(times) for place, times in truth[step].items()})
        missing.subtract({place: len(times) for place, times in own[step].items()})
        assert sum(missing.values()) == sum(map(abs, missing.values())), "too many"
        zeroed = sum(row == "discard" for row in requests(folder)["operation"].to_pylist())
        assert sum(missing.values()) == unreadable + zeroed
        assert zeroed <= (disk == "sda"), "blkdiscard -z, which SCSI does by WRITE SAME with UNMAP"
        for place, times in own[step].items():
            apart = [abs(a - b) for a, b in zip(sorted(truth[step][place]), times, strict=False)]
            assert max(apart) < CLOCK_NS or unreadable
    name = "0:0:0:0" if disk == "sda" else disk
    assert set(requests(folder)["device"].to_pylist()) == {name}
    assert "dd" in set(requests(folder)["process"].to_pylist())
    assert folder.content["counts"]["bad_lines"] == 0
    assert not sum(folder.content["loss"]["unmatched"].values())
    # AND what has no place is told
    discards = len(re.findall(r"_setup_cmd: .*_dsm |opcode=9 |cmd_start: .*raw=42", text))
    discards += len(re.findall(r"cmd_start: .*opcode=66 ", text))
    said = traces.warnings(folder)
    assert said["unplaced_commands"].startswith(f"{discards + unreadable} commands")
    assert ("assumed_values" in said) == (block_bytes is None)


@pytest.mark.parametrize("name", ["nvme0n1.ftrace", "sda.perf"])
def test_block_events_go_first(read: Importer, name: str) -> None:
    # GIVEN a text of both WHEN it is imported THEN its requests are those of the block events alone
    text = recorded(name)
    both, block = read(text), read(lines_of(text, block=True))
    assert requests(both).equals(requests(block))
    events = len(re.findall(r"nvme_setup_cmd:|nvme_complete_rq:|scsi_dispatch_cmd_\w+:", text))
    (told,) = [one for one in both.content["inferences"] if one["what"] == "passed over"]
    assert f"({events:,})" in told["value"]
    # AND the driver's are read if the user says so, and the others told
    form = "scsi" if name.startswith("sda") else "nvme"
    own = read(text, form=form)
    assert requests(own).equals(requests(read(lines_of(text, block=False))))
    assert "events of block" in traces.warnings(own)["other_layers"]


def test_the_size_of_a_block_is_asked_for_where_512_bytes_are_unlikely(read: Importer) -> None:
    text = lines_of(recorded("nvme1n1.ftrace"), block=False)
    read.rejects(text, "259 of 263 commands are no whole 4 KiB", hint="--page 4096B")
    small = read(text, page_bytes=512)
    large = read(text, page_bytes=4096)
    bytes_of = [sum(requests(one)["length_bytes"].to_pylist()) for one in (small, large)]
    assert bytes_of[1] == 8 * bytes_of[0]


def test_completions_of_commands_that_were_not_seen(read: Importer) -> None:
    # GIVEN a text that begins while commands are in flight, and ends so
    lines = lines_of(recorded("nvme0n1.ftrace"), block=False).splitlines()
    starts = [n for n, line in enumerate(lines) if "_setup_cmd" in line and "_write s" in line]
    middle = next(n for n in starts if "_setup_cmd" in lines[n + 1])
    tag = re.findall(r"qid=(\d+), cmdid=(\d+)", lines[middle])[0]
    end = next(n for n in range(middle, len(lines)) if "_complete" in lines[n]
               and f"qid={tag[0]}, cmdid={tag[1]}," in lines[n])  # fmt: skip
    # WHEN what lies behind the start is imported
    later = read("\n".join(lines[middle + 1 :]) + "\n")
    # THEN the completion without a command is counted, and the command without one has none
    assert later.content["loss"]["unmatched"]["complete"] >= 1
    sooner = read("\n".join(lines[:end]) + "\n")
    assert requests(sooner)["complete_ns"].null_count >= 1


FILE_SYSTEMS = """
          dd-1 [000] ..... 1.000001: {}f2fs_submit_write_bio: dev = (254,48), rw = WRITE(S), DATA
          dd-1 [000] ..... 1.000002: {}block_rq_issue: 8,0 W 8192 () 16 + 16 none,0,0 [dd]
          dd-1 [000] ..... 1.000003: {}ext4_da_write_begin: dev 254,48 ino 12 pos 0 len 4096
          dd-1 [000] ..... 1.000004: {}sched_switch: prev_comm=dd prev_pid=1
          dd-1 [000] ..... 1.000005: {}block_rq_complete: 8,0 W () 16 + 16 none,0,0 [0]
"""


@pytest.mark.parametrize("systems", [[""] * 5, ["f2fs:", "block:", "ext4:", "sched:", "block:"]])
def test_events_of_file_systems_are_counted_by_name(read: Importer, systems: list[str]) -> None:
    # GIVEN a text of ftrace or perf with events of file systems beside those of blocks
    text = FILE_SYSTEMS.format(*systems)
    folder = read(text)
    assert requests(folder)["sector"].to_pylist() == [16]
    told = [one["value"] for one in folder.content["inferences"] if one["what"] == "passed over"]
    assert told == ["events of f2fs (1), ext4 (1), other (1)"]
    # AND alone they are refused with what to trace
    alone = "".join(f"{line}\n" for line in text.splitlines() if "block_" not in line)
    read.rejects(alone, "its first lines are events of a file system", hint="block:block_rq_issue")


UFS = """
    kworker/8:0H-80 [008] ..... 89.106063: ufshcd_command: send_req: 0:0:0:4: tag: 10, DB: 0x7b,\
 size: 524288, IS: 0, LBA: 1085538, opcode: 0x8a (WRITE_16), group_id: 0x0
    kworker/1:1H-175 [001] ..... 89.106100: ufshcd_command: send_req: 0:0:0:4: tag: 7, DB: 0x0,\
 size: 4096, IS: 0, LBA: 6221511, opcode: 0x28 (READ_10), group_id: 0x0, hwq_id: 1
    kworker/1:1H-175 [001] ..... 89.106110: ufshcd_command: send_req: 0:0:0:4: tag: 28, DB: 0x0,\
 size: -1, IS: 0, LBA: 18446744073709551615, opcode: 0x0 (0x0), group_id: 0x0
         cat-7511 [005] d.h1. 89.106219: ufshcd_command: complete_rsp: 0:0:0:4: tag: 7, DB: 0x0,\
 size: 4096, IS: 0, LBA: 6221511, opcode: 0x28 (READ_10), group_id: 0x0, hwq_id: 1
          dd-4225 [000] d.h.. 89.106300: ufshcd_command: complete_rsp: 0:0:0:4: tag: 10, DB: 0x0,\
 size: 524288, IS: 0, LBA: 1085538, opcode: 0x8a (WRITE_16), group_id: 0x0
"""
"""Lines as published: https://lore.kernel.org/linux-scsi/20230706215124.4113546-1-bvanassche@acm.org,
and with what a query has there; the second command is of an Android device."""


@pytest.mark.parametrize("system", ["", "ufs:"])
def test_ufs_as_published(read: Importer, system: str) -> None:
    # GIVEN commands of UFS of Linux 6, whose places are its blocks of 4,096 bytes
    folder = read(UFS.replace("ufshcd_command", f"{system}ufshcd_command"))
    rows = requests(folder).to_pylist()
    got = [
        (row["operation"], row["sector"], row["length_bytes"], row["complete_ns"] - row["issue_ns"])
        for row in rows
    ]
    assert got == [
        ("write", 8 * 1085538, 524288, 237_000), ("read", 8 * 6221511, 4096, 119_000)
    ]  # fmt: skip
    assert [row["process"] for row in rows] == ["kworker/8:0H", "kworker/1:1H"]
    assert folder.content["source"]["format"] == "ufs"
    # AND before Linux 5.14 places are sectors, all of them multiples of 8
    older = re.sub(r"LBA: (\d{1,9}),", lambda found: f"LBA: {int(found[1]) * 8},", UFS)
    older = older.replace("send_req: 0:0:0:4", "send: 1d84000.ufshc")
    older = older.replace("complete_rsp: 0:0:0:4", "complete: 1d84000.ufshc")
    same = [row["sector"] for row in requests(read(older)).to_pylist()]
    assert same == [row["sector"] for row in rows]


COMMANDS = {
    "08 01 02 03 04 00": ("read", 0x010203, 4, False),
    "0a 1f ff ff 00 00": ("write", 0x1FFFFF, 256, False),
    "28 00 80 00 00 01 00 00 08 00": ("read", 0x80000001, 8, False),
    "2a 08 00 00 00 10 00 00 20 00": ("write", 16, 32, True),
    "2e 00 00 00 00 10 00 00 20 00": ("write", 16, 32, False),
    "a8 00 00 00 00 10 00 00 01 00 00 00": ("read", 16, 256, False),
    "aa 08 00 00 00 10 00 00 01 00 00 00": ("write", 16, 256, True),
    "88 00 00 00 00 01 00 00 00 00 00 00 00 08 00 00": ("read", 1 << 32, 8, False),
    "8a 08 00 00 00 01 00 00 00 00 00 00 00 08 00 00": ("write", 1 << 32, 8, True),
    "41 08 00 00 00 10 00 00 20 00": ("discard", 16, 32, False),
    "93 00 00 00 00 00 00 00 00 10 00 00 00 20 00 00": ("write", 16, 32, False),
    "7f 00 00 00 00 00 00 18 00 09 00 00 00 00 00 00 00 00 00 10 00 00 00 00 00 00 00 00 00 00 00"
    " 20": ("read", 16, 32, False),
    "7f 00 00 00 00 00 00 18 00 0b 08 00 00 00 00 00 00 00 00 10 00 00 00 00 00 00 00 00 00 00 00"
    " 20": ("write", 16, 32, True),
}
"""Operation, first block, blocks, FUA of commands as SBC-4 (INCITS 506) lays them out."""


def test_each_command_of_scsi(read: Importer) -> None:
    # GIVEN one command of each layout, and some that are no requests, which fail
    others = ["12 00 00 00 24 00", "35 00 00 00 00 00 00 00 00 00", "00 00 00 00 00 00"]
    text = "".join(
        f" dd-1 [000] ..... 1.{2 * n + at:06}: scsi_dispatch_cmd_{step}: host_no=2 channel=0 id=1"
        f" lun=3 data_sgl=1 prot_sgl=0 prot_op=SCSI_PROT_NORMAL cmnd=(X - raw={raw})"
        f"{' result=(driver=DRIVER_OK host=DID_OK message=X status=SAM_STAT_BUSY)' * at}\n"
        for n, raw in enumerate([*COMMANDS, *others])
        for at, step in enumerate(["start", "done"])
    )
    # WHEN they are imported, THEN each is what the standard says, and failed
    folder = read(text)
    got = [
        (row["operation"], row["sector"], row["length_bytes"] // 512, row["is_fua"])
        for row in requests(folder).to_pylist()
    ]
    assert got == list(COMMANDS.values())
    assert set(requests(folder)["error"].to_pylist()) == {-5}
    assert set(requests(folder)["device"].to_pylist()) == {"2:0:1:3"}
    assert folder.content["counts"]["device_flushes"] == 1
