"""Who else uses a target: other owners, a loop device's new file, who comes at the last moment."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from fcntl import ioctl
from itertools import product
from pathlib import Path

import pytest

from tests.privileges.others import NOBODY, as_user, must_reach, other_folder
from tests.replay.campaign import MAPPER, REGISTERER, hold, loop
from tests.replay.disk import call, image, token_of, unchanged
from tests.replay.processes import await_true
from tests.replay.program import WRITES, Confirmed, Replay, command, play, record, write_plan
from tracekit._native import program_path
from tracekit.plans.block_plan import WRITE

pytestmark = pytest.mark.root


LOOP_CTL_REMOVE = 0x4C81
MAPPED = REGISTERER.replace("    os.close(ring)\n", "")


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder that everybody may use, with a file that everybody may write."""
    del tmp_path
    must_reach(program_path(), NOBODY)
    with other_folder() as folder:
        folder.chmod(0o777)
        image(folder / "t").chmod(0o666)
        yield folder


def running() -> int:
    """Count the processes that have a command line: threads of the kernel have none."""
    count = 0
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            count += bool(one.read_bytes())
    return count


@pytest.mark.parametrize("is_open", [True, False])
def test_another_owners_file_is_refused_to_a_plain_user(
    ends: ExitStack, theirs: Path, *, is_open: bool
) -> None:
    # GIVEN a file of root that everybody may write, which root may have open
    plan, target = write_plan(theirs / "a.plan", WRITES), theirs / "t"
    if is_open:
        ends.enter_context(target.open("rb"))
    # WHEN a plain user, to whom the kernel gives no lease on it, confirms it
    line = command(plan, confirmed=target)
    with unchanged(target):
        ran = play(plan, line, **as_user(NOBODY))
    # THEN he is refused, since he cannot know
    ran.refused("another user owns it, and only root may look into processes of others")
    # (threads of the kernel, of which a machine has dozens, have no files)
    assert 0 < int(ran.messages.split()[-1]) < running() + 25
    # AND when another process of his has it open, he is told which
    with ExitStack() as user, unchanged(target):
        own = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
        hold(user, *own, "sh", "-c", 'exec 3<"$0"; echo ready; exec sleep 1000', target)
        ran = play(plan, line, **as_user(NOBODY))
        ran.refused("another process has the file open: ")
    # AND root, who can, is not, unless somebody has it open
    ran = play(plan, line)
    assert ran.code == (1 if is_open else 0), ran.messages


SOME_ALONE = "only some processes are shown here"


def test_where_proc_hides_processes_they_may_use_it(
    tmp_path: Path, ends: ExitStack, theirs: Path
) -> None:
    # GIVEN a /proc that shows a plain user his own processes alone, or a PID namespace
    plan, target = write_plan(theirs / "a.plan", WRITES), theirs / "t"
    script = 'mount -t proc -o hidepid=2 proc /proc && exec setpriv "$@"'
    user = (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    line = ["unshare", "--mount", "sh", "-c", script, "sh", *user]
    with target.open("rb"), unchanged(target):
        play(plan, [*line, *command(plan, confirmed=target)]).refused(SOME_ALONE)
    device = loop(ends, image(tmp_path / "disk"))
    line = ["unshare", "--pid", "--fork", "--mount-proc"]
    with unchanged(tmp_path / "disk"):
        words = command(plan, target=device, write_to=token_of(device))
        play(plan, [*line, *words]).refused(SOME_ALONE)
    # THEN a file of which the kernel itself says that nobody else has it open is written
    assert play(plan, [*line, *command(plan, confirmed=target)]).counts["done"] == 3


def test_a_plain_user_may_write_to_what_is_his(theirs: Path) -> None:
    plan, target = write_plan(theirs / "a.plan", WRITES), theirs / "t"
    os.chown(target, NOBODY, NOBODY)
    line = command(plan, confirmed=target)
    # WHEN he owns a file, THEN the kernel says that nobody has it open
    ran = play(plan, line, **as_user(NOBODY))
    assert (ran.code, ran.counts["done"], ran.target["unseen_processes"]) == (0, 3, 0)
    with target.open("rb"), unchanged(target):
        play(plan, line, **as_user(NOBODY)).refused("another process has the file open")


def test_a_plain_user_is_told_how_many_processes_he_cannot_see(
    ends: ExitStack, theirs: Path
) -> None:
    plan = write_plan(theirs / "a.plan", WRITES)
    device = loop(ends, image(theirs / "disk"), "--offset", "65536", "--sizelimit", str(9 << 20))
    node = theirs / "node"
    os.mknod(node, 0o600 | 0o060000, device.stat().st_rdev)
    os.chown(node, NOBODY, NOBODY)
    line = command(plan, target=node, write_to=token_of(device))
    ran = play(plan, line, **as_user(NOBODY))
    if "cannot find out what is behind the loop device" in ran.messages:
        pytest.skip("this machine has loop devices on files that a plain user cannot see")
    assert (ran.code, ran.counts["skipped_read_only"]) == (0, 0), ran.messages
    assert ran.target["unseen_processes"] > 0
    assert ran.target["confirm_with"] == token_of(device)


@pytest.mark.plain  # beside strace nothing else can trace the program, as the sanitizers do
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("folder", ["fd", "task"])
@pytest.mark.parametrize("error", ["ENOENT", "ESRCH", "ENOMEM", "EMFILE"])
def test_a_process_that_ends_meanwhile_is_no_reason_and_one_that_cannot_be_seen_is(
    free: Confirmed, ends: ExitStack, tmp_path: Path, folder: str, error: str
) -> None:
    # GIVEN a process whose descriptors or threads cannot be listed after their folder was opened
    log = tmp_path / "strace"
    other = ends.enter_context(subprocess.Popen(["sleep", "1000"]))
    ends.callback(other.kill)
    traced = ["strace", "-f", "-qq", "-o", str(log), "-P", f"/proc/{other.pid}/{folder}"]
    traced += [f"--inject=newfstatat,fstat:error={error}"]
    ran = free.play(*traced, *free.line)
    assert "INJECTED" in log.read_text()
    # THEN one that has ended has nothing open any more; of another nobody knows
    if error in ("ENOENT", "ESRCH"):
        assert (ran.code, ran.counts["done"]) == (0, 3), ran.messages
    else:
        ran.refused("cannot find out who uses it: ")


@pytest.fixture
def loop_name() -> Iterator[Path]:
    """Yield the name of a loop device that others who look for a free one are not given first."""
    number = 1000 + os.getpid() % 10_000
    yield Path(f"/dev/loop{number}")
    with suppress(OSError), Path("/dev/loop-control").open() as control:
        ioctl(control, LOOP_CTL_REMOVE, number)


def test_a_token_of_a_loop_device_is_good_for_its_file_only(
    replay: Replay, tmp_path: Path, loop_name: Path
) -> None:
    def attach(attached: ExitStack, file: Path, *options: str) -> None:
        call("losetup", *options, loop_name, file)
        attached.callback(call, "losetup", "--detach", loop_name)

    first = image(tmp_path / "first")
    with ExitStack() as attached:
        attach(attached, first)
        token = token_of(loop_name)
        assert replay(WRITES, target=loop_name).target["confirm_with"] == token

    def is_confirmed(file: Path, *options: str) -> bool:
        with ExitStack() as attached:
            attach(attached, file, *options)
            ran = replay(WRITES[:1], target=loop_name, write_to=token, dry_run=True)
            assert ran.code == 0, ran.messages
            return bool(ran.target["may_write"])

    # WHEN it is attached again as it was, THEN it is confirmed, by no other file or window
    assert is_confirmed(first)
    assert not is_confirmed(first, "--sizelimit", str(8 << 20))
    assert not is_confirmed(image(tmp_path / "second"))
    # AND of a file that is removed, nothing is taken from another with the name that it is shown by
    number = first.stat().st_ino
    with ExitStack() as attached:
        attach(attached, first)
        first.unlink()
        image(tmp_path / "first (deleted)")
        said = replay(WRITES, target=loop_name).target["confirm_with"]
    assert said.endswith(f":{number}:0:0+0+0"), said
    # AND not even by a new file that got the number of the old one
    assert not is_confirmed(image(tmp_path / "third"))


OWN_TABLE = """
import ctypes, os, sys, threading, time
libc = ctypes.CDLL(None)
def use():
    if sys.argv[2] == "own":
        libc.unshare(0x400)  # CLONE_FILES
    os.open(sys.argv[1], os.O_RDWR)
    print("ready", flush=True)
    time.sleep(1000)
threading.Thread(target=use).start()
if sys.argv[2] == "last":
    libc.syscall(60, 0)  # exit, of this thread alone
"""


@pytest.mark.parametrize("kind", ["own", "last"])
def test_a_thread_is_seen_whatever_the_first_one_has(free: Confirmed, kind: str) -> None:
    # GIVEN a process whose first thread shows nothing of what another one has open
    with ExitStack() as user, unchanged(free.device):
        hold(user, sys.executable, "-c", OWN_TABLE, free.device, kind)
        free.play().refused("it is in use by the process")
    assert free.play().code == 0


def test_root_without_the_right_to_look_at_others_is_refused(
    free: Confirmed, tmp_path: Path
) -> None:
    # GIVEN a root as in a container, who may list what others have open, and not what that is:
    # of a ring it sees the mapping alone
    bounded = ["setpriv", "--bounding-set", "-sys_ptrace", *free.line]
    user = f'exec setpriv --reuid={NOBODY} --clear-groups sh -c "echo ready; exec sleep 1000"'
    with ExitStack() as other, unchanged(free.file):
        hold(other, sys.executable, "-c", MAPPED, image(tmp_path / "other"), "mapped")
        hold(other, "sh", "-c", f'exec 3<>"$0"; {user}', free.device)
        free.play(*bounded).refused("root may not look into all processes here")
    assert free.play().code == 0


def test_a_mapping_is_seen_whose_node_has_no_name_any_more(free: Confirmed, tmp_path: Path) -> None:
    # GIVEN a process that maps the device by a node of its own, which is removed
    node = tmp_path / "node"
    os.mknod(node, stat.S_IFBLK | 0o600, free.device.stat().st_rdev)
    with ExitStack() as user, unchanged(free.file):
        hold(user, sys.executable, "-c", MAPPER, node)
        node.unlink()
        free.play().refused("it is in use by a mapping")
    assert free.play().code == 0


def test_a_ring_with_another_file_is_no_matter(
    free: Confirmed, tmp_path: Path, ends: ExitStack
) -> None:
    for other in (image(tmp_path / "other"), Path("/dev/null")):
        hold(ends, sys.executable, "-c", REGISTERER, other)
    # AND one that is mapped, whose descriptor tells what it has
    hold(ends, sys.executable, "-c", MAPPED, image(tmp_path / "third"), "mapped")
    assert free.play().code == 0


BESIDE = REGISTERER.replace('print("', 'libc.syscall(425, 4, bytes(120))\nprint("')
OF_OWN_MEMORY = """
import ctypes, mmap, os, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
kind, way, beside = (*sys.argv[2:], "", "")[:3]
is_shown = way == "shown"
def setup(told, flags):
    struct.pack_into("<3I", told, 8, flags, 0, 1)  # who polls sleeps after 1 ms
    return libc.syscall(425, 4, told)
if beside in ("idle", "polling"):
    setup(ctypes.create_string_buffer(120), 2 * (beside == "polling"))
memory = mmap.mmap(-1, 65536)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
told = ctypes.create_string_buffer(120)
struct.pack_into("<Q", told, 72, address)
struct.pack_into("<Q", told, 112, address + 8192)
# IORING_SETUP_NO_MMAP, REGISTERED_FD_ONLY unless it is shown and, for who polls, SQPOLL
ring = setup(told, (0x4000 if is_shown else 0xC000) | 2 * (kind == "polls"))
if ring < 0:
    print("unknown", flush=True)
    sys.exit()
if is_shown:
    number = (ctypes.c_uint64 * 2)(2**32 - 1, ring)
    assert libc.syscall(427, ring, 20, number, 1) == 1
    ring = number[0]
def use(*counts):
    return libc.syscall(426, ring, *counts, 19, 0, 0)  # GETEVENTS, SQ_WAKEUP, REGISTERED_RING
fd = os.open(sys.argv[1], os.O_RDWR)
assert libc.syscall(427, ring, ctypes.c_uint(2 | 1 << 31), (ctypes.c_int * 1)(fd), 1) == 0
os.close(fd)
if kind == "works" or is_shown:
    # A write of no bytes, IOSQE_FIXED_FILE and for who works IOSQE_ASYNC
    flags = 17 if kind == "works" else 1
    memory[:64] = struct.pack("<BBHiQQII32x", 23, flags, 0, 0, 0, address, 0, 0)
    (tail,) = struct.unpack_from("<I", told, 44)
    struct.pack_into("<I", memory, 8192 + tail, 1)
    assert use(1, 1) == 1
print("ready", flush=True)
if kind == "waits":
    use(0, 2)
time.sleep(1000)
"""


def knows_rings_of_own_memory(folder: Path) -> bool:
    """Return whether the kernel does: since Linux 6.5."""
    line = [sys.executable, "-c", OF_OWN_MEMORY, str(folder / "t"), "waits"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        process.kill()
    return said == "ready\n"


HIDDEN = product(("waits", "works", "polls"), ("none", "idle", "polling"))


@pytest.mark.alone
@pytest.mark.parametrize(("kind", "beside"), [("mapped", "idle"), *HIDDEN])
def test_a_ring_without_a_descriptor_is_seen(
    free: Confirmed, tmp_path: Path, kind: str, beside: str
) -> None:
    # GIVEN a process with a ring that is only mapped, or with one that is not even mapped: a thread
    # works, polls for it or waits in it. It may have one with a descriptor, that it has not used.
    if kind != "mapped" and not knows_rings_of_own_memory(tmp_path):
        pytest.skip("the kernel has no rings in memory of the process's own")
    script = BESIDE if kind == "mapped" else OF_OWN_MEMORY
    with ExitStack() as user, unchanged(free.device):
        hold(user, sys.executable, "-c", script, free.device, kind, "hidden", beside)
        free.play().refused("it may be among the files that it holds without a descriptor")
    assert free.play().code == 0


@pytest.mark.parametrize("kind", ["waits", "works", "polls"])
def test_threads_of_rings_with_descriptors_are_no_matter(
    free: Confirmed, tmp_path: Path, ends: ExitStack, kind: str
) -> None:
    # GIVEN a program as many are: a thread works or polls for its ring, or waits in it by a number
    if not knows_rings_of_own_memory(tmp_path):
        pytest.skip("the kernel has no rings in memory of the process's own")
    hold(ends, sys.executable, "-c", OF_OWN_MEMORY, image(tmp_path / "other"), kind, "shown")
    ran = free.play()
    assert ran.code == 0, ran.messages


def _sign(_ends: ExitStack, file: Path, _device: Path) -> None:
    with file.open("r+b") as content:
        content.seek(4086)
        content.write(b"SWAPSPACE2")
        os.fsync(content)


def _open(ends: ExitStack, _file: Path, device: Path) -> None:
    ends.enter_context(device.open("r+b"))


def _attach(ends: ExitStack, file: Path, _device: Path) -> None:
    loop(ends, file, "--read-only")


LATE = {"it holds swap": _sign, "is in use by the process|has the file open": _open}
LATE |= {"is behind the loop device": _attach}


@pytest.mark.parametrize("is_device", [True, False])
@pytest.mark.parametrize("reason", LATE)
def test_who_comes_at_the_last_moment_is_seen(
    tmp_path: Path, ends: ExitStack, reason: str, *, is_device: bool
) -> None:
    # GIVEN a free target, and a run of it that has checked it and measures its machine
    file = image(tmp_path / "t")
    target = loop(ends, file) if is_device else file
    token = token_of(target) if is_device else target
    rows = [record(WRITE, 0, 8, at_ns=n * 10**7) for n in range(100)]
    plan = write_plan(tmp_path / "a.plan", rows)
    line = command(plan, target=target, write_to=token, engine="threads")
    part = f"{plan.stem}.done.*.part"
    # WHEN somebody comes, THEN nothing is written. One that comes too late proves nothing.
    for _ in range(5):
        process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
        await_true(lambda: [*tmp_path.glob(part)], pause_s=0.0005)
        process.send_signal(signal.SIGSTOP)
        is_late = any(file.read_bytes()[:4096])
        with ExitStack() as user:
            LATE[reason](user, file, target)
            process.send_signal(signal.SIGCONT)
            said = process.communicate(timeout=60)[1]
        if not is_late:
            break
        image(file)
    assert process.returncode == 1, said
    assert any(words in said for words in reason.split("|")), said
    assert not any(file.read_bytes()[:4086])
