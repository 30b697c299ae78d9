"""NVMe by its own commands and zoned devices, in a guest: each command as the kernel traces it."""

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.replay.program import (
    Bytes,
    Record,
    content,
    expected_content,
    pattern,
    record,
    write_plan,
)
from tracekit.lab.machine import NvmeDisk
from tracekit.lab.session import Job, session
from tracekit.plans.block_plan import (
    DISCARD,
    FLUSH,
    FUA,
    PREFLUSH,
    READ,
    WRITE,
    WRITE_ZEROES,
    ZONE_APPEND,
    ZONE_CLOSE,
    ZONE_FINISH,
    ZONE_OPEN,
    ZONE_RESET,
    ZONE_RESET_ALL,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab-nvme")]
MIB = 32
SECTORS = MIB << 11
ZONE = 4 << 11
"""Sectors of a zone."""
BLOCK = 8
"""Sectors of a block of every disk here."""
MOST_OPEN, MOST_ACTIVE = 3, 5
"""Zones of the disks that cannot have all of theirs open."""
SCRIPT = f"""
set -e
tracing=/sys/kernel/tracing
mount -t tracefs tracefs $tracing 2> /dev/null || true
for node in ng0n1 ng1n1 ng2n1 nvme0n1; do
  until [ -e /dev/$node ]; do sleep 0.1; done
done
replay() {{  # NAME TARGET TOKEN PLAN OPTIONS...
  name=$1 target=$2 token=$3 plan=$4
  shift 4
  tracekit-replay $LAB_SHARE/$plan --target $target --write-to "$token" --pace fast --depth 1 \
    --completions $LAB_OUT/$name.done --summary $LAB_OUT/$name.json "$@" 2> $LAB_OUT/$name.said \
    || echo $? > $LAB_OUT/$name.code
}}
traced() {{  # EVENT NAME ...: the same with what the kernel traces
  event=$1
  shift
  echo > $tracing/trace
  echo 1 > $tracing/events/$event/enable
  replay "$@"
  echo 0 > $tracing/events/$event/enable
  cp $tracing/trace $LAB_OUT/$1.trace
}}
kept() {{  # NAME DISK: its bytes and its zones
  dd if=/dev/$2 of=$LAB_OUT/$1.image bs=1M iflag=direct status=none
  blkzone report /dev/$2 > $LAB_OUT/$1.zones 2> /dev/null || true
}}
empty() {{ blkdiscard -z /dev/$1; }}
cat /sys/block/nvme0n1/queue/io_poll > $LAB_OUT/polls
for way in "" --iopoll "--sqpoll --iopoll"; do
  name=plain$(echo "$way" | tr -d ' -')
  empty nvme0n1
  traced nvme/nvme_setup_cmd $name /dev/ng0n1 lab-nvme0 mixed.plan --engine nvme $way
  kept $name nvme0n1
done
replay deep /dev/nvme0n1 lab-nvme0 mixed.plan --engine nvme --depth 64 --overlaps order
kept deep nvme0n1
empty nvme0n1
replay uring /dev/nvme0n1 lab-nvme0 mixed.plan --engine io_uring --iopoll
kept uring nvme0n1
replay long /dev/ng0n1 lab-nvme0 long.plan --engine nvme
kept long nvme0n1

# Who is in use, or is no namespace.
replay token /dev/ng0n1 nobody mixed.plan --engine nvme
kept token nvme0n1
mke2fs -q /dev/nvme0n1 && mkdir -p /tmp/m && mount /dev/nvme0n1 /tmp/m
replay mounted /dev/ng0n1 lab-nvme0 mixed.plan --engine nvme --overwrite-signature ext
umount /tmp/m
replay signed /dev/ng0n1 lab-nvme0 mixed.plan --engine nvme
sh -c 'exec 3<>/dev/ng0n1; exec sleep 100' &
until [ -e /proc/$!/fd/3 ]; do sleep 0.1; done
replay opened /dev/nvme0n1 lab-nvme0 mixed.plan --engine io_uring --overwrite-signature ext
kill $!
replay other /dev/vda lab-root mixed.plan --engine nvme
replay file $LAB_OUT/t x mixed.plan --engine nvme
dd if=/dev/zero of=/dev/nvme0n1 bs=1M count=2 status=none

# A user whose quota is smaller than the plan.
mke2fs -q -t ext4 -O quota /dev/nvme0n1 && mount -o usrquota /dev/nvme0n1 /tmp/m
python3 $LAB_SHARE/quota.py /tmp/m 1000 1024
mkdir -m 777 /tmp/m/own /tmp/results
for check in "" --no-space-check; do
  setpriv --reuid=1000 --regid=1000 --clear-groups tracekit-replay $LAB_SHARE/mixed.plan \
    --target /tmp/m/own/t --pace fast $check --summary /tmp/results/quota$check.json \
    2> $LAB_OUT/quota$check.said || true
done
cp /tmp/results/* $LAB_OUT
umount /tmp/m
dd if=/dev/zero of=/dev/nvme0n1 bs=1M count=2 status=none

# Zones: by NVMe's commands, by calls, and on a disk of the kernel's own.
null=/sys/kernel/config/nullb/zoned
mkdir $null
for setting in size={MIB} zoned=1 zone_size=4 memory_backed=1 blocksize=4096 power=1; do
  echo "${{setting#*=}}" > $null/${{setting%%=*}}
done
numbers=$(cat /sys/block/zoned/dev):$(cat /sys/block/zoned/size)
traced nvme/nvme_setup_cmd zones-nvme /dev/ng1n1 lab-nvme1 zones.plan --engine nvme
kept zones-nvme nvme1n1
for engine in io_uring threads; do
  for disk in nvme1n1 zoned; do
    own=lab-nvme1
    [ $disk = zoned ] && own=$numbers
    blkzone reset /dev/$disk
    traced block/block_bio_queue zones-$engine-$disk /dev/$disk "$own" zones.plan --engine $engine
    kept zones-$engine-$disk $disk
    blkzone reset /dev/$disk
    replay wild-$engine-$disk /dev/$disk "$own" wild.plan --engine $engine
  done
done
blkzone reset /dev/nvme1n1
replay wild-nvme /dev/ng1n1 lab-nvme1 wild.plan --engine nvme
blkzone reset /dev/nvme1n1
replay dry /dev/ng1n1 lab-nvme1 wild.plan --engine nvme --dry-run
replay unzoned /dev/nvme0n1 lab-nvme0 zones.plan --engine io_uring

# As many zones as may be open and active.
few=/sys/kernel/config/nullb/few
mkdir $few
for setting in size={MIB} zoned=1 zone_size=4 memory_backed=1 blocksize=4096 \
  zone_max_open={MOST_OPEN} power=1; do
  echo "${{setting#*=}}" > $few/${{setting%%=*}}
done
numbers=$(cat /sys/block/few/dev):$(cat /sys/block/few/size)
for disk in nvme2n1 few; do
  cat /sys/block/$disk/queue/max_open_zones /sys/block/$disk/queue/max_active_zones \
    > $LAB_OUT/$disk.most
  own=lab-nvme2
  [ $disk = few ] && own=$numbers
  for engine in io_uring threads; do
    blkzone reset /dev/$disk
    replay fewdry-$engine-$disk /dev/$disk "$own" few.plan --engine $engine --dry-run
    replay few-$engine-$disk /dev/$disk "$own" few.plan --engine $engine
  done
done
blkzone reset /dev/nvme2n1
replay fewdry-nvme-nvme2n1 /dev/ng2n1 lab-nvme2 few.plan --engine nvme --dry-run
replay few-nvme-nvme2n1 /dev/ng2n1 lab-nvme2 few.plan --engine nvme
replay nodiscard /dev/few "$numbers" mixed.plan --dry-run
"""


QUOTA = """
import ctypes, os, struct, sys
place, user, kib = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
limits = ctypes.create_string_buffer(struct.pack("8QI4x", kib, 0, 0, 0, 0, 0, 0, 0, 1))
libc, descriptor = ctypes.CDLL(None, use_errno=True), os.open(place, os.O_RDONLY)
if libc.syscall(443, descriptor, 0x800008 << 8, user, limits):  # quotactl_fd, Q_SETQUOTA
    sys.exit(os.strerror(ctypes.get_errno()))
"""


def mixed() -> list[Record]:
    """Return requests of every kind on whole blocks."""
    random = np.random.default_rng(5)
    rows = []
    for number in range(400):
        kind = (READ, WRITE, WRITE, FLUSH, WRITE, DISCARD, WRITE_ZEROES)[number % 7]
        if kind == FLUSH:
            rows.append(record(FLUSH))
            continue
        blocks = int(random.integers(1, 9))
        flags = int(random.choice([0, 0, FUA, PREFLUSH, FUA | PREFLUSH])) if kind == WRITE else 0
        block = int(random.integers(0, SECTORS // BLOCK - blocks))
        rows.append(record(kind, BLOCK * block, BLOCK * blocks, flags=flags))
    return rows


class Zones:
    """What a zoned disk does: where each zone is written next, and its content."""

    def __init__(self, *, appends_as_writes: bool, is_cut: bool = True) -> None:
        self.next = [n * ZONE for n in range(SECTORS // ZONE)]
        self.content: Bytes = np.zeros(SECTORS * 512, np.uint8)
        self.appends_as_writes = appends_as_writes
        self.is_cut = is_cut
        """The block layer cuts a request at the end of a zone; a device rejects it."""

    def takes(self, row: Record) -> bool:
        """Do a request; return whether the disk takes it."""
        _, sector, _, sectors, kind, *_ = row
        zone = sector // ZONE
        end = (zone + 1) * ZONE
        if kind == WRITE and sector + sectors > end:
            halves = (sector, end - sector), (end, sector + sectors - end)
            parts = [record(WRITE, *half) for half in halves] if self.is_cut else []
            return bool(parts) and [self.takes(part) for part in parts] == [True, True]
        place = self.next[zone] if kind == ZONE_APPEND else sector
        if kind in (WRITE, ZONE_APPEND, WRITE_ZEROES):
            if place != self.next[zone] or place + sectors > end:
                return False
            source = sector if kind == ZONE_APPEND and not self.appends_as_writes else place
            data = 0 if kind == WRITE_ZEROES else pattern(source * 512, sectors * 512)
            self.content[place * 512 : (place + sectors) * 512] = data
            self.next[zone] += sectors
        resets = range(len(self.next)) if kind == ZONE_RESET_ALL else [zone]
        for one in resets if kind in (ZONE_RESET, ZONE_RESET_ALL) else ():
            self.next[one] = one * ZONE
            self.content[one * ZONE * 512 : (one + 1) * ZONE * 512] = 0
        if kind == ZONE_FINISH:
            self.next[zone] = end
        return True


def zoned_rows() -> list[Record]:
    """Return requests that a zoned disk takes: each write where its zone is written next."""
    random = np.random.default_rng(9)
    disk = Zones(appends_as_writes=True)
    rows: list[Record] = []
    while len(rows) < 400:
        zone = int(random.integers(0, SECTORS // ZONE))
        length = BLOCK * int(random.integers(1, 40))
        place, left = disk.next[zone], (zone + 1) * ZONE - disk.next[zone]
        kind = int(random.choice([READ, WRITE, WRITE, WRITE, ZONE_APPEND, ZONE_APPEND, FLUSH]))
        rare = random.random()
        if rare < 0.03:
            rows.append(record(ZONE_RESET, zone * ZONE))
        elif rare < 0.05:
            rows.append(record(ZONE_FINISH, zone * ZONE))
        elif rare < 0.08 and left == ZONE:
            rows += [record(ZONE_OPEN, zone * ZONE), record(ZONE_CLOSE, zone * ZONE)]
        elif rare < 0.082:
            rows.append(record(ZONE_RESET_ALL, 0))
        elif kind == FLUSH:
            rows.append(record(FLUSH))
        elif kind == READ or left >= length:
            start = {READ: zone * ZONE, WRITE: place, ZONE_APPEND: zone * ZONE}[kind]
            flags = FUA if kind == WRITE and random.random() < 0.2 else 0
            rows.append(record(kind, start, length, flags=flags))
        else:
            continue
        added = rows[-1:] if rows[-1][4] != ZONE_CLOSE else rows[-2:]
        assert all(disk.takes(row) for row in added)
    return rows


def wild_rows() -> list[Record]:
    """Return writes of which a zoned disk takes few: in no order, over the ends of zones."""
    random = np.random.default_rng(3)
    rows: list[Record] = []
    for number in range(200):
        zone = int(random.integers(0, SECTORS // ZONE - 1))
        place = int(random.choice([0, 0, 8, 16, ZONE - 8]))
        rows.append(record(WRITE, zone * ZONE + place, BLOCK * int(random.integers(1, 4))))
        if number % 9 == 0:
            rows.append(record(ZONE_RESET, zone * ZONE))
    return rows


def few_rows() -> list[Record]:
    """Return requests to more zones at once than some disks have: each write where it may be."""
    random = np.random.default_rng(11)
    rows: list[Record] = []
    for _ in range(300):
        zone = int(random.integers(0, SECTORS // ZONE)) * ZONE
        kind = int(random.choice([ZONE_APPEND] * 6 + [ZONE_OPEN] * 2 + [ZONE_RESET]))
        rows.append(record(kind, zone, 8 * BLOCK if kind == ZONE_APPEND else 0))
    return rows


MIXED, ZONED, WILD, FEW = mixed(), zoned_rows(), wild_rows(), few_rows()
LONG = [record(WRITE, 0, 24 << 11), record(READ, 8, 20 << 11), record(WRITE_ZEROES, 4096, 8 << 11)]
PLAIN_WAYS = ("plain", "plainiopoll", "plainsqpolliopoll")
ZONED_WAYS = [
    "zones-nvme",
    *(f"zones-{e}-{disk}" for e in ("io_uring", "threads") for disk in ("nvme1n1", "zoned")),
]


@pytest.fixture(scope="module")
def files(place: Path) -> Path:
    """Replay on such disks in all ways; return what the guest brought."""
    for name, rows in (
        *(("mixed", MIXED), ("zones", ZONED), ("wild", WILD), ("long", LONG), ("few", FEW)),
    ):
        write_plan(place / f"share/{name}.plan", rows, needed_sectors=SECTORS)
    (place / "share/quota.py").write_text(QUOTA)
    zoned = NvmeDisk(MIB, zone_mib=4, block_bytes=4096)
    few = replace(zoned, most_open=MOST_OPEN, most_active=MOST_ACTIVE)
    disks = (NvmeDisk(MIB, block_bytes=4096), zoned, few)
    job = Job(("bash", "-c", SCRIPT), share=place / "share", nvme=disks)
    with session(job, on_step=print) as ended:
        shutil.copytree(ended.folder / "files", place / "files")
        said = (ended.folder / "stderr").read_text()
        assert ended.exit_status == 0, said
    return place / "files"


def summary_of(files: Path, name: str) -> Mapping[str, Any]:
    told: Mapping[str, Any] = json.loads((files / f"{name}.json").read_text())
    return told


def said(files: Path, name: str) -> str:
    return (files / f"{name}.said").read_text()


COMMAND = re.compile(r"nvme_setup_cmd: .*nsid=1, .*cmd=\(nvme_cmd_(\w+) (.*)\)")


def commands(files: Path, name: str) -> list[tuple[Any, ...]]:
    """Return the commands of the run as the kernel traced them: opcode and what it is about."""
    found: list[tuple[Any, ...]] = []
    for opcode, text in COMMAND.findall((files / f"{name}.trace").read_text()):
        of = dict(part.split("=") for part in text.split(", ") if "=" in part)
        if opcode in ("read", "write", "zone_append", "write_zeroes"):
            is_fua = bool(int(of["ctrl"], 16) & 0x4000)
            found.append((opcode, int(of["slba"]), int(of["len"]) + 1, is_fua))
        elif opcode == "zone_mgmt_send":
            found.append((opcode, int(of["slba"]), int(of["zsa"]), int(of["all"])))
        elif opcode == "dsm":
            found.append((opcode, int(of["nr"]), int(of["attributes"])))
        else:
            found.append((opcode,))
    # The first read of a run tries whether the device takes commands; what tools ask before is not
    # traced, and the last read of partitions comes after it.
    return found


def expected_commands(rows: list[Record]) -> list[tuple[Any, ...]]:
    names = {READ: "read", WRITE: "write", WRITE_ZEROES: "write_zeroes", ZONE_APPEND: "zone_append"}
    actions = {ZONE_CLOSE: 1, ZONE_FINISH: 2, ZONE_OPEN: 3, ZONE_RESET: 4, ZONE_RESET_ALL: 4}
    found: list[tuple[Any, ...]] = []
    for _, sector, _, sectors, kind, flags, *_ in rows:
        if kind == FLUSH or flags & PREFLUSH:
            found.append(("flush",))
        if kind in names:
            place = (sector // BLOCK, sectors // BLOCK, bool(flags & FUA))
            found.append((names[kind], *place))
        elif kind in actions:
            is_all = int(kind == ZONE_RESET_ALL)
            found.append(("zone_mgmt_send", sector // BLOCK, actions[kind], is_all))
        elif kind == DISCARD:
            found.append(("dsm", 0, 4))
    return found


def assert_within(
    found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]], *, beside: set[str]
) -> None:
    """Fail unless all that is expected was found in one piece, and else only these kinds."""
    starts = [n for n in range(len(found)) if found[n : n + len(expected)] == expected]
    assert starts, (found[:8], expected[:8])
    others = found[: starts[0]] + found[starts[0] + len(expected) :]
    assert {one[0] for one in others} <= beside


@pytest.mark.parametrize(
    ("name", "rows"), [*((way, MIXED) for way in PLAIN_WAYS), ("zones-nvme", ZONED)]
)
def test_the_kernel_sends_each_command_once_and_in_order(
    files: Path, name: str, rows: list[Record]
) -> None:
    # Beside them: what looks for signatures and zones, and the read that tries this way.
    found, expected = commands(files, name), expected_commands(rows)
    assert_within(found, expected, beside={"read", "zone_mgmt_recv"})


@pytest.mark.parametrize("name", [*PLAIN_WAYS, "deep", "uring"])
def test_commands_leave_the_bytes_of_the_plan(files: Path, name: str) -> None:
    summary = summary_of(files, name)
    assert summary["counts"]["done"] == len(MIXED)
    # What a device has where it was discarded is its own matter.
    is_known = np.ones(MIB << 20, bool)
    for _, sector, _, sectors, kind, *_ in MIXED:
        if kind in (WRITE, WRITE_ZEROES, DISCARD):
            is_known[sector * 512 : (sector + sectors) * 512] = kind != DISCARD
    expected = expected_content(MIXED, MIB << 20)[is_known]
    assert (content(files / f"{name}.image")[is_known] == expected).all()
    is_polled = "iopoll" in name or name == "uring"
    assert (files / "polls").read_text().strip() == "1"
    assert summary["engine"]["used"] == ("io_uring" if name == "uring" else "nvme")
    assert summary["engine"]["features"]["iopoll"] == is_polled
    assert summary["engine"]["features"]["sqpoll"] == ("sqpoll" in name)
    assert summary["targets"][0]["confirm_with"] == "lab-nvme0"
    # Commands without data are not polled: flushes, those before data, and zeroes.
    without = sum((row[4] in (FLUSH, WRITE_ZEROES)) + bool(row[5] & PREFLUSH) for row in MIXED)
    if name == "uring":  # the block layer polls less: nothing that is durable, no discard
        without += sum((row[4] == DISCARD) + bool(row[5] & FUA) for row in MIXED)
    assert summary["engine"]["unpolled"] == is_polled * without


def test_what_is_longer_than_a_command_is_several(files: Path) -> None:
    summary = summary_of(files, "long")
    assert summary["counts"]["done"] == len(LONG)
    assert summary["engine"]["resubmitted"] > 20
    # The zeroes of the plan that ran before are where nothing was written.
    found = content(files / "long.image")[: 24 << 20]
    assert (found == expected_content(LONG, 24 << 20)).all()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mounted", ("is refused", "mounted")),
        ("opened", ("is refused", "in use by the process")),
        ("signed", ("it holds ext",)),
        ("other", ("refused",)),
        ("file", ("takes no commands of NVMe",)),
    ],
)
def test_the_block_device_of_a_character_device_is_guarded(
    files: Path, name: str, words: tuple[str, ...]
) -> None:
    assert (files / f"{name}.code").read_text().strip() == "1"
    assert all(word in said(files, name) for word in words), said(files, name)


def test_a_wrong_token_writes_nothing_by_commands(files: Path) -> None:
    counts = summary_of(files, "token")["counts"]
    assert counts["skipped_read_only"] == sum(row[4] not in (READ, FLUSH) for row in MIXED)
    assert (content(files / "token.image") == content(files / "long.image")).all()


def test_a_quota_that_is_too_small_is_said_before(files: Path) -> None:
    assert "the writes pass the quota of the file's owner" in said(files, "quota")
    assert not (files / "quota.json").exists()
    summary = summary_of(files, "quota--no-space-check")
    (note,) = [n for n in summary["targets"][0]["fit"] if n["code"] == "no_quota"]
    assert note["available"] == 1 << 20
    assert note["needed"] > 2 << 20
    assert {error["name"] for error in summary["errors"]} == {"EDQUOT"}


def zone_pointers(files: Path, name: str) -> list[int]:
    """Return where each zone is written next, as blkzone reports it: from the start of the disk."""
    found: list[int] = []
    for line in (files / f"{name}.zones").read_text().splitlines():
        start, place = re.search(r"start: 0x(\w+).*wptr 0x(\w+)", line).groups()  # type: ignore[union-attr]
        is_full = "zcond:14" in line
        found.append((len(found) + 1) * ZONE if is_full else int(start, 16) + int(place, 16))
    return found


@pytest.mark.parametrize("name", ZONED_WAYS)
def test_zones_are_written_reset_and_finished(files: Path, name: str) -> None:
    disk = Zones(appends_as_writes=name != "zones-nvme")
    assert all(disk.takes(row) for row in ZONED)
    summary = summary_of(files, name)
    assert summary["counts"]["done"] == len(ZONED), summary["errors"]
    assert zone_pointers(files, name) == disk.next
    image = content(files / f"{name}.image")
    for zone, end in enumerate(disk.next):
        written = slice(zone * ZONE * 512, end * 512)
        is_finished = any(row[4] == ZONE_FINISH and row[1] == zone * ZONE for row in ZONED)
        if not is_finished:
            assert (image[written] == disk.content[written]).all()
    fit = {note["code"]: note["requests"] for note in summary["targets"][0]["fit"]}
    appends = sum(row[4] == ZONE_APPEND for row in ZONED)
    assert fit == ({} if name == "zones-nvme" else {"append_as_write": appends})


@pytest.mark.parametrize("name", [way for way in ZONED_WAYS if way != "zones-nvme"])
def test_the_kernel_queues_each_operation_on_zones(files: Path, name: str) -> None:
    # GIVEN the places at which a disk takes the requests
    disk, expected = Zones(appends_as_writes=True), []
    for row in ZONED:
        place = disk.next[row[1] // ZONE] if row[4] == ZONE_APPEND else row[1]
        assert disk.takes(row)
        if row[4] in (READ, WRITE, ZONE_APPEND):
            expected.append(("R" if row[4] == READ else "W", place, row[3]))
        elif row[4] not in (FLUSH, ZONE_RESET_ALL):
            expected.append(("N", row[1], 0))  # this kernel has no letter for them
    # THEN the kernel queued them there and in this order
    text = (files / f"{name}.trace").read_text()
    device = re.findall(r"block_bio_queue: (\S+) N", text)[0]
    line = rf"block_bio_queue: {device} (\w+) (\d+) \+ (\d+) \[([a-z-]+)"
    found: list[tuple[str, int, int]] = []
    for rwbs, at, sectors, who in re.findall(line, text):
        one = (rwbs[0], int(at), int(sectors))
        # Flushes have no place, and of all zones the kernel says the first. What would have waited
        # in the call of the ring comes again from its worker.
        is_again = who == "iou-wrk-" and found[-1:] == [one]
        if one[0] != "F" and one != ("N", 0, 0) and not is_again:
            found.append(one)
    assert_within(found, [one for one in expected if one != ("N", 0, 0)], beside={"R"})


@pytest.mark.parametrize(
    "name",
    [
        "wild-nvme",
        *(f"wild-{e}-{d}" for e in ("io_uring", "threads") for d in ("nvme1n1", "zoned")),
    ],
)
def test_what_breaks_the_rules_of_zones_is_counted_before(files: Path, name: str) -> None:
    disk = Zones(appends_as_writes=True, is_cut=name != "wild-nvme")
    rejected = sum(not disk.takes(row) for row in WILD)
    summary = summary_of(files, name)
    fit = {note["code"]: note["requests"] for note in summary["targets"][0]["fit"]}
    assert sum(fit.values()) == rejected == summary["counts"]["failed"] > 50
    assert set(fit) == {"zone_write_pointer", "zone_crossing"}
    if name == "wild-nvme":
        dry = summary_of(files, "dry")["targets"][0]["fit"]
        assert {note["code"]: note["requests"] for note in dry} == fit


def test_operations_on_zones_are_skipped_where_there_are_none(files: Path) -> None:
    summary = summary_of(files, "unzoned")
    zoned = sum(row[4] >= ZONE_APPEND for row in ZONED)
    assert summary["counts"]["skipped_unsupported"] == zoned
    (note,) = summary["targets"][0]["fit"]
    assert (note["code"], note["requests"]) == ("no_zones", zoned)


@pytest.mark.parametrize(
    ("engine", "disk"),
    [("nvme", "nvme2n1"), *((e, d) for e in ("io_uring", "threads") for d in ("nvme2n1", "few"))],
)
def test_zones_beyond_what_can_be_open_are_counted_before(
    files: Path, engine: str, disk: str
) -> None:
    # GIVEN disks of which the kernel says that few zones can be open, and of one also active
    most = [int(word) for word in (files / f"{disk}.most").read_text().split()]
    assert most == [MOST_OPEN, MOST_ACTIVE if disk == "nvme2n1" else 0]
    summary = summary_of(files, f"few-{engine}-{disk}")
    about = summary["targets"][0]
    zones = {"count": 8, "in_order": 8, "zone_bytes": 4 << 20}
    assert about["zones"] == zones | {"most_open": most[0], "most_active": most[1]}
    # THEN as many requests fail as were counted, in the dry run, too
    fit = {note["code"]: note["requests"] for note in about["fit"]}
    assert summary["counts"]["failed"] == fit["zone_limit"] > 10
    assert fit.keys() <= {"zone_limit", "append_as_write"}
    assert summary_of(files, f"fewdry-{engine}-{disk}")["targets"][0]["fit"] == about["fit"]


def test_discards_that_a_zoned_disk_does_not_take_are_counted(files: Path) -> None:
    fit = summary_of(files, "nodiscard")["targets"][0]["fit"]
    (note,) = [one for one in fit if one["code"] == "no_discard"]
    assert note["requests"] == sum(row[4] == DISCARD for row in MIXED)
