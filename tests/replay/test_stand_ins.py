"""What no machine of tests has, by files in the place of the kernel's: exports, and DAX devices."""

import os
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.replay.campaign import disk
from tests.replay.disk import image, loop, token_of, unchanged
from tests.replay.processes import await_true
from tests.replay.program import WRITES, Confirmed, Ran, command, play, record, write_plan
from tracekit.plans.block_plan import WRITE

pytestmark = [
    pytest.mark.root,
    pytest.mark.xdist_group("stand-ins"),
    pytest.mark.usefixtures("own_root"),
]
EXPORTS = {
    "target/core/iblock_0/disk/udev_path": "{}\n",
    "target/core/fileio_0/file/info": "Status: ON\n  File: {}  Size: 16777216  Mode: O_DSYNC",
    "nvmet/subsystems/one/namespaces/1/device_path": "{}\n",
    "usb_gadget/one/functions/mass_storage.0/lun.0/file": "{}\n",
}
"""Attributes in which the kernel's servers name what they export."""


def beside(place: str, stand_in: Path, line: list[str]) -> list[str]:
    """Return a command line that sees a folder of ours in `place`, a folder of the kernel's."""
    above = Path(place).parent
    script = 'mount -t tmpfs none "$0" && mkdir "$1" && mount --bind "$2" "$1" && shift 2 && exec'
    return ["unshare", "--mount", "sh", "-c", f'{script} "$@"', str(above), place, str(stand_in),
            *line]  # fmt: skip


@pytest.mark.parametrize("attribute", EXPORTS)
def test_what_the_kernel_exports_is_refused(
    free: Confirmed, tmp_path: Path, attribute: str
) -> None:
    # GIVEN a device, or the file behind one, that the kernel serves to others
    told = tmp_path / "config" / attribute
    told.parent.mkdir(parents=True)

    def replayed(exported: Path) -> Ran:
        told.write_text(EXPORTS[attribute].format(exported))
        return free.play(*beside("/sys/kernel/config", tmp_path / "config", free.line))

    with unchanged(free.file):
        for exported in (free.file, free.device):
            where = f"/sys/kernel/config/{attribute}"
            replayed(exported).refused("the kernel exports it:", where)
    # THEN another one's export is no matter
    ran = replayed(image(tmp_path / "other"))
    assert (ran.code, ran.counts["done"]) == (0, 3), ran.messages


def endless(path: Path) -> None:
    path.symlink_to(path)


DISK = "target/core/iblock_0/disk/udev_path"


@pytest.mark.parametrize(
    ("told", "make", "words"),
    [
        (DISK, Path.mkdir, f"{DISK}: Is a directory"),
        (DISK, endless, f"{DISK}: Too many levels of symbolic links"),
        (
            DISK,
            lambda path: path.write_text("/none/at/all\n"),
            f"{DISK}: No such file or directory",
        ),
        ("target/core", endless, "target/core/*/*/udev_path: Input/output error"),
        ("other", Path.mkdir, "nvmet: No such file or directory"),
    ],
)
def test_exports_that_cannot_be_read_are_refused(
    tmp_path: Path, told: str, make: Callable[[Path], Any], words: str
) -> None:
    # GIVEN a kernel that may serve block devices to others, and does not say which
    config, modules = tmp_path / "config", tmp_path / "modules"
    (config / told).parent.mkdir(parents=True)
    make(config / told)
    (modules / ("nvmet" if told == "other" else "none")).mkdir(parents=True)
    file, free = image(tmp_path / "t"), image(tmp_path / "free")
    plan = write_plan(tmp_path / "a.plan", WRITES)

    def replayed(target: Path, token: Path | str) -> Ran:
        line = command(plan, target=target, write_to=token)
        seen = over("/sys/module", modules, line)
        return play(plan, beside("/sys/kernel/config", config, seen))

    with loop(file) as device, unchanged(file):
        where = f"cannot find out whether the kernel exports it: /sys/kernel/config/{words}"
        replayed(device, token_of(device)).refused(where)
    # THEN a file, of which the kernel says whether anybody has it open, is written all the same
    assert replayed(free, free).counts["done"] == 3


def over(place: str, stand_in: str | Path, line: list[str]) -> list[str]:
    """Return a command line that sees a file or folder of ours in the place of the kernel's."""
    script = 'mount --bind "$1" "$0" && shift && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", script, place, str(stand_in), *line]


def test_what_is_swap_or_part_of_something_is_refused(free: Confirmed, tmp_path: Path) -> None:
    # GIVEN a device that is swap in the kernel's list, by a name with a blank, or has a holder
    swaps, holder = tmp_path / "swaps", tmp_path / "holders/dm-9"
    holder.mkdir(parents=True)
    (holder / "dev").write_text("253:9\n")
    (tmp_path / "a b").symlink_to(free.device)
    with unchanged(free.file):
        for name in (free.device, free.file, f"{tmp_path}/a\\040b"):
            swaps.write_text(f"Filename Type Size Used Priority\n{name} partition 16384 0 -2\n")
            free.play(*over("/proc/swaps", swaps, free.line)).refused("it is in use as swap:")
        place = f"/sys/block/{free.device.name}/holders"
        free.play(*over(place, holder.parent, free.line)).refused("is part of 253:9")


def folder_of(*names: str) -> Callable[[Path], None]:
    """Return what makes a folder with folders in it: attributes that cannot be read."""

    def make(path: Path) -> None:
        for name in ("", *names):
            (path / name).mkdir(parents=True)

    return make


def numbered(text: str) -> Callable[[Path], None]:
    """Return what makes a folder with a device in it whose number is this."""

    def make(path: Path) -> None:
        (path / "dm-9").mkdir(parents=True)
        (path / "dm-9/dev").write_text(text)

    return make


def closed(path: Path) -> None:
    """Make what cannot be opened."""
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 250))


def too_many(path: Path) -> None:
    """Make as many devices as fit a graph, beside which there is the target."""
    for number in range(512):
        (path / f"dm-{number}").mkdir(parents=True)
        (path / f"dm-{number}/dev").write_text(f"253:{number}\n")


HELD, OTHER = "cannot find out who uses it:", "cannot find out what is the loop device {other}"
RELATED = "cannot find out what it is related to:"
LOOP = ("backing_file", "offset", "sizelimit")


@pytest.mark.parametrize(
    ("place", "is_device", "make", "words"),
    [
        # A sanitizer says that it misses /proc, too.
        pytest.param(
            *("/proc", True, folder_of(), f"{HELD} No such file or directory"),
            marks=pytest.mark.plain,
        ),
        ("/sys", False, folder_of(), "cannot list the block devices: No such file or directory"),
        ("/sys", True, folder_of(), "cannot identify it: No such file or directory"),
        (
            *("/sys/block/{other}/loop", True, folder_of("backing_file")),
            "cannot find out what is behind the loop device {other}",
        ),
        ("/sys/block/{other}/dev", True, Path.touch, OTHER),
        ("/sys/block/{other}/dev", False, closed, OTHER),
        ("/sys/block/{device}/holders", True, folder_of("dm-9/dev"), f"{HELD} Is a directory"),
        ("/sys/block/{device}/slaves", True, folder_of("dm-9/dev"), f"{RELATED} Is a directory"),
        *(
            ("/sys/block/{device}/holders", True, numbered(text), f"{HELD} Invalid argument")
            for text in ("253\n", "253:\n", ":9\n", "253:9x\n")
        ),
        (
            *("/sys/block/{device}/slaves", True, numbered("253:9\n")),
            f"{RELATED} No such file or directory",
        ),
        ("/sys/block/{device}/slaves", True, too_many, f"{RELATED} Argument list too long"),
    ],
)
def test_what_cannot_be_known_is_refused(
    tmp_path: Path, place: str, words: str, make: Callable[[Path], None], *, is_device: bool
) -> None:
    # GIVEN a target, and a machine on which who uses it cannot be seen
    file, stand_in = image(tmp_path / "t"), tmp_path / "stand-in"
    make(stand_in)
    plan = write_plan(tmp_path / "a.plan", WRITES)
    with loop(image(tmp_path / "other")) as other, loop(file) as device, unchanged(file):
        free = image(tmp_path / "free")
        target, token = (device, token_of(device)) if is_device else (free, free)
        line = command(plan, target=target, write_to=token)
        names = {"other": other.name, "device": device.name}
        ran = play(plan, over(place.format(**names), stand_in, line))
    ran.refused(words.format(**names))


def told_of(device: Path, stand_in: Path, line: list[str]) -> list[str]:
    """Return a command line that sees in a folder of ours what the kernel tells of a device."""
    folder = Path(f"/sys/block/{device.name}")
    for name in ("dev", "size", *(f"loop/{name}" for name in LOOP)):
        (stand_in / name).parent.mkdir(exist_ok=True)
        (stand_in / name).write_bytes((folder / name).read_bytes())
    return over(str(folder), stand_in, line)


def test_a_serial_number_is_the_token_as_one_word(free: Confirmed, tmp_path: Path) -> None:
    line = told_of(free.device, tmp_path / "told", command(free.plan, target=free.device))
    number, _, token = token_of(free.device).partition("@")
    for serial, word in ((" A B\t1\x7f  ", "_A_B_1_"), ("  ", number)):
        (tmp_path / "told/serial").write_text(f"{serial}\n")
        assert free.play(*line).target["confirm_with"] == f"{word}@{token}"


RING = "7f0000000000-7f0000001000 rw-s 00000000 00:10 1057 {}anon_inode:[io_uring]\n".format(
    " " * 20
)


@pytest.mark.parametrize(
    ("fdinfo", "maps", "is_free"),
    [
        ("pos:\t0\nflags:\t02\nscm_fds: 1\n", "", False),
        ("pos:\t0\nflags:\t02\nscm_fds: 0\n", "", True),
        ("", RING, False),
        ("", RING.replace("io_uring", "perf_event"), True),
    ],
)
def test_what_a_process_holds_unseen_may_be_the_target(
    free: Confirmed, tmp_path: Path, fdinfo: str, maps: str, *, is_free: bool
) -> None:
    # GIVEN a process with a socket in which descriptors wait, or with a ring that has no descriptor
    with a_process_told_as(free, tmp_path, fdinfo, maps) as (pid, ran):
        # THEN nobody knows what that is, and the target is refused
        if is_free:
            assert ran().counts["done"] == 3
        else:
            words = "it may be among the files that it holds without a descriptor: the process"
            ran().refused(words, str(pid))


@pytest.mark.parametrize(
    ("flags", "call", "is_free"),
    [
        (0x404050, "running", False),
        (0x400100, "426 0x0 0x0 0x9 0x11 0x0 0x0 0x7ffe 0x7f44", False),
        (0x400100, "426 0x3 0x0 0x9 0x1 0x0 0x0 0x7ffe 0x7f44", True),
        (0x400100, "230 0x0 0x0 0x9 0x11 0x0 0x0 0x7ffe 0x7f44", True),
        (0x400100, "running", True),
    ],
)
def test_a_ring_that_nothing_else_shows_shows_by_threads(
    free: Confirmed, tmp_path: Path, flags: int, call: str, *, is_free: bool
) -> None:
    # GIVEN a thread that the kernel made for a ring, or one that waits in a ring by its number
    task = tmp_path / "told/task/7"
    task.mkdir(parents=True)
    (task / "stat").write_text(f"7 (a) b) S 1 1 1 0 -1 {flags} 0 0\n")
    (task / "syscall").write_text(f"{call}\n")
    with a_process_told_as(free, tmp_path, "", "") as (pid, ran):
        # THEN its process, which has no descriptor of that ring, may use the target by it
        if is_free:
            assert ran().counts["done"] == 3
        else:
            ran().refused("it may be among the files that it holds", str(pid))


def test_what_a_process_holds_unseen_for_a_moment_is_no_matter(
    free: Confirmed, tmp_path: Path
) -> None:
    # GIVEN a descriptor on its way through a socket, which arrives once it has been looked at
    with a_process_told_as(free, tmp_path, "flags:\t02\nscm_fds: 1\n", "") as (_, ran):
        info = tmp_path / "told/fdinfo/3"
        read_ns = info.stat().st_atime_ns

        def arrive() -> None:
            await_true(lambda: info.stat().st_atime_ns != read_ns, pause_s=0.001)
            time.sleep(0.3)
            info.write_text("scm_fds: 0\n")

        arrival = threading.Thread(target=arrive)
        arrival.start()
        # THEN the process is looked at again
        assert ran().counts["done"] == 3
        arrival.join()


@contextmanager
def a_process_told_as(
    free: Confirmed, tmp_path: Path, fdinfo: str, maps: str
) -> Iterator[tuple[int, Callable[[], Ran]]]:
    """Yield a process with a socket, of which these texts are told, and a run beside it."""
    told = tmp_path / "told"
    for name in ("fd", "fdinfo", "task"):
        (told / name).mkdir(parents=True, exist_ok=True)
    (told / "maps").write_text(maps)
    (told / "fdinfo/3").write_text(fdinfo)
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(tmp_path / "end"))
        (told / "fd/3").symlink_to(tmp_path / "end")
        with subprocess.Popen(["sleep", "1000"]) as process:
            line = over(f"/proc/{process.pid}", told, free.line)
            try:
                yield process.pid, lambda: free.play(*line)
            finally:
                process.kill()


@pytest.mark.parametrize("generic", ["scsi_generic/sg9", "bsg/0:0:0:9"])
def test_who_has_a_disks_generic_device_open_uses_the_disk(
    free: Confirmed, tmp_path: Path, generic: str
) -> None:
    # GIVEN a disk with a character device that takes its commands, which a process has open
    attribute = tmp_path / "told/device" / generic / "dev"
    attribute.parent.mkdir(parents=True)
    attribute.write_text("1:5\n")
    line = told_of(free.device, tmp_path / "told", free.line)
    with unchanged(free.file), Path("/dev/zero").open("r+b"):
        free.play(*line).refused("it is in use by the process")
    assert unused(free.plan, line).counts["done"] == 3


def test_two_paths_to_one_disk_are_one_disk(tmp_path: Path) -> None:
    # GIVEN two disks of one name, of which the other one is in use
    file, plan = image(tmp_path / "t"), write_plan(tmp_path / "a.plan", WRITES)
    with loop(file) as device, loop(image(tmp_path / "other")) as other:
        token = f"naa.5@{token_of(device).partition('@')[2]}"

        def replayed(name: str) -> Ran:
            told = command(plan, target=device, write_to=token)
            for each, own in ((device, "naa.5"), (other, name)):
                stand_in = tmp_path / each.name
                stand_in.mkdir(exist_ok=True)
                told = told_of(each, stand_in, told)
                (stand_in / "wwid").write_text(f"{own}\n")
            return play(plan, told)

        with unchanged(file), other.open("r+b"):
            replayed("naa.5").refused("it is in use by the process")
        # THEN it is refused no more once that one is free, or is another disk
        assert replayed("naa.5").counts["done"] == 3
        with other.open("r+b"):
            assert replayed("naa.6").counts["done"] == 3


def test_the_device_to_which_a_zram_writes_is_one_below(free: Confirmed, tmp_path: Path) -> None:
    # GIVEN a device that keeps a part of its bytes on another one
    line = told_of(free.device, tmp_path / "told", free.line)

    def replayed(behind: Path | str) -> Ran:
        (tmp_path / "told/backing_dev").write_text(f"{behind}\n")
        return free.play(*line)

    with loop(image(tmp_path / "behind")) as lower:
        # THEN it is refused when that one is in use, or cannot be found
        with unchanged(free.file), loop(lower) as upper:
            shared = "what it shares its bytes with is behind the loop device"
            replayed(lower).refused(shared, upper.name)
            replayed(f"{lower} (deleted)").refused(f"{RELATED} No such file or directory")
            replayed(free.file).refused(f"{RELATED} Block device required")
        for one in (lower, "none"):
            assert replayed(one).counts["done"] == 3


def test_a_disk_known_by_a_part_of_it_is_walked_again_as_a_whole(
    free: Confirmed, ends: ExitStack, tmp_path: Path
) -> None:
    # GIVEN a target that is built of a partition, and of loop devices that stand on all of its disk
    disk_, first, second = disk(ends, tmp_path)
    lower = ends.enter_context(loop(disk_))
    upper = ends.enter_context(loop(ends.enter_context(loop(lower))))
    for part in (first, upper):
        numbers = (Path("/sys/class/block") / part.name / "dev").read_bytes()
        (tmp_path / "slaves" / part.name).mkdir(parents=True)
        (tmp_path / "slaves" / part.name / "dev").write_bytes(numbers)
    line = over(f"/sys/block/{free.device.name}/slaves", tmp_path / "slaves", free.line)
    # THEN who uses the other partition, which is found last, uses the target
    with unchanged(free.file), second.open("r+b"):
        free.play(*line).refused("it is in use by the process")
    assert free.play(*line).counts["done"] == 3


def test_a_partition_over_which_another_one_lies_shares_its_bytes(
    ends: ExitStack, tmp_path: Path
) -> None:
    # GIVEN two partitions, the other of which is in use
    _, first, second = disk(ends, tmp_path)
    upper = ends.enter_context(loop(second))
    plan, start = write_plan(tmp_path / "a.plan", WRITES[:2]), tmp_path / "start"
    line = command(plan, target=first, write_to=token_of(first))
    # WHEN the kernel says that it begins amid the target, or nothing that could be read
    for text in ("2048", "8000", "no number"):
        start.write_text(f"{text}\n")
        with unchanged(tmp_path / "img"):
            ran = play(plan, over(f"/sys/class/block/{second.name}/start", start, line))
        ran.refused("what it shares its bytes with is behind the loop device", upper.name)
    # THEN it is refused, and written where they lie side by side
    assert play(plan, line).counts["done"] == 2


def test_a_device_below_that_cannot_be_claimed_is_refused_for_writing(tmp_path: Path) -> None:
    # GIVEN a loop device upon another one, which has no node that could be opened
    file, empty = image(tmp_path / "t"), tmp_path / "empty"
    empty.mkdir()
    plan = write_plan(tmp_path / "a.plan", WRITES)
    window = ("--offset", "65536", "--sizelimit", str(9 << 20))
    with loop(file, *window) as lower, loop(lower) as upper, unchanged(file):

        def replayed(**options: Any) -> Ran:
            line = over(str(lower), file, command(plan, target=upper, **options))
            has_others = Path("/dev/block").is_dir()
            return play(plan, over("/dev/block", empty, line) if has_others else line)

        refused = "cannot claim the device that it shares its bytes with,"
        replayed(write_to=token_of(upper)).refused(refused, lower.name)
        # AND what it is confirmed with has all that the kernel's files tell of that one
        ran = replayed()
        assert (ran.counts["skipped_read_only"], ran.target["confirm_with"]) == (3, token_of(upper))


ZERO = os.makedev(1, 5)
"""A character device that can be mapped: its content goes with the mapping."""
SIZE = 16 << 20


def dax(tmp_path: Path, **options: Any) -> tuple[Path, Path, list[str]]:
    """Return a plan, the node of a stand-in of a DAX device, and the command line of a replay."""
    node, told = tmp_path / "dax0.0", tmp_path / "char/1:5"
    os.mknod(node, 0o600 | stat.S_IFCHR, ZERO)
    told.mkdir(parents=True)
    (told / "subsystem").symlink_to("../../bus/dax")
    (told / "size").write_text(f"{SIZE}\n")
    (told / "align").write_text("2097152\n")
    rows = [record(WRITE, 8 * n, 8, at_ns=n * 10**7) for n in range(100)]
    plan = write_plan(tmp_path / "a.plan", rows)
    words: dict[str, Any] = {"target": node, "write_to": f"1:5:{SIZE}", "engine": "dax", **options}
    return plan, node, beside("/sys/dev/char", tmp_path / "char", command(plan, **words))


def unused(plan: Path, line: list[str]) -> Ran:
    """Replay when no other process has /dev/zero open, as tests on other workers may."""
    for _ in range(100):
        ran = play(plan, line)
        if "it is in use by the process" not in ran.messages:
            break
        time.sleep(0.1)
    return ran


def test_a_dax_device_that_nobody_else_uses_is_written_with_its_token(tmp_path: Path) -> None:
    plan, node, line = dax(tmp_path, pace="fast")
    ran = unused(plan, line)
    assert (ran.code, ran.target["kind"], ran.counts["done"]) == (0, "dax device", 100), ran
    assert (ran.target["size_bytes"], ran.target["confirm_with"]) == (SIZE, f"1:5:{SIZE}")
    # AND with another's token it is only read
    again = unused(plan, [word.replace(f"1:5:{SIZE}", "1:5:1") for word in line])
    assert (again.code, again.counts["skipped_read_only"]) == (0, 100)
    # AND one whose size cannot be read is not even opened
    (tmp_path / "char/1:5/size").write_text("")
    play(plan, line).refused("cannot identify it: Input/output error")
    # AND a character device of another kind is none
    (tmp_path / "char/1:5/subsystem").unlink()
    play(plan, line).refused("neither a regular file nor a block device nor a DAX device")
    assert node.exists()


@pytest.mark.parametrize("is_late", [True, False])
def test_a_dax_device_that_somebody_has_open_is_refused(tmp_path: Path, *, is_late: bool) -> None:
    # GIVEN a replay, and who opens the device before it, or after its first look
    plan, node, line = dax(tmp_path)
    with ExitStack() as user:
        if not is_late:
            user.enter_context(node.open("rb"))
        process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
        if is_late:
            parts = await_true(lambda: [*tmp_path.glob("a.done.*.part")], pause_s=0.0005)
            pid = int(parts[0].suffixes[-2].removeprefix("."))
            os.kill(pid, signal.SIGSTOP)
            user.enter_context(node.open("rb"))
            os.kill(pid, signal.SIGCONT)
        said = process.communicate(timeout=60)[1]
    # THEN nothing is stored there
    assert (process.returncode, "it is in use by the process" in said) == (1, True), said
    assert not plan.with_suffix(".done").exists()
