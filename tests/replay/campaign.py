"""Nothing is written that somebody else uses: every node, by every name, beside every user.

`python -m tests.replay.campaign` tries all cases, as root. Its parts need no package, so that
a guest of the lab tries nodes and users of its own. The plan must write in a target's first MiB.
"""

import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fcntl import ioctl
from itertools import groupby
from pathlib import Path

MIB = 1 << 20
BLKFLSBUF = 0x1261
PATIENCE_S = 300.0
"""Only what hangs takes so long."""
NOT_YET_FREE = (
    *("has the file open", "without a descriptor"),
    *("is mounted at", "cannot find out what is behind"),
)
"""Why a target may be refused for a moment behind its user: the kernel takes a ring apart after its
process has ended, and what others run has mount namespaces and loop devices of its own."""
ALLOWED = ("ext", "mbr", "gpt", "swap", "lvm", "md", "bcache", "ambivalent")
STILL = ("-o", "ro,noload")
"""How to mount an ext4 that must not write anything by itself."""


Layers = dict[str, Path]
"""What shares bytes with a target, and the target itself, by name."""
Build = Callable[[ExitStack, Path], Layers]
Use = Callable[[ExitStack, Path, Path], None]


@dataclass(frozen=True)
class Node:
    """How a target is made; layers whose name begins with "file" are files, the others devices."""

    build: Build
    layers: str
    """From the lowest to the highest."""
    target: str
    mountable: str = ""
    """Layers that may hold a file system."""
    held: str = ""
    """Layers that the kernel holds for what is built of them."""
    others: str = ""
    """What stands beside the target and shares no byte with it."""
    own: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Users of a layer beside those that a layer of its kind has."""
    needs: str = ""
    """A module of the kernel."""
    is_restless: bool = False
    """It still writes by itself for a moment after it was written to."""


@dataclass(frozen=True)
class User:
    """Who makes a layer busy, and what the program says of it."""

    use: Use
    reasons: tuple[str, ...]
    """One of these is in the refusal."""
    makes: tuple[str | Path, ...] = ()
    """The command that makes on the layer what it needs."""
    needs: str = ""
    is_of_files: bool = False
    """It uses files, too."""


def call(*command: str | Path, text: str = "") -> str:
    """Run a command that must succeed and return what it printed."""
    words = " ".join(map(str, command))
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            said, complaint = process.communicate(text, timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"{words}: it does not end") from None
    if process.returncode != 0:
        raise AssertionError(f"{words}: {complaint}")
    return said.strip()


def image(place: Path, name: str = "img", *, mib: int = 8) -> Path:
    """Make a sparse file."""
    path = place / name
    path.write_bytes(b"")
    os.truncate(path, mib * MIB)
    return path


def loop(ends: ExitStack, backing: Path, *options: str) -> Path:
    """Return a loop device on a file or device, detached at the end."""
    device = Path(call("losetup", *options, "--find", "--show", backing))
    ends.callback(call, "losetup", "--detach", device)
    return device


def _delete_partitions(device: Path) -> None:
    """Wait for who looks at one for a moment: replays of other tests, and udev."""
    until_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            call("partx", "--delete", device)
        except AssertionError:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.1)
        else:
            return


def disk(ends: ExitStack, place: Path) -> tuple[Path, Path, Path]:
    """Return a loop device with two partitions, and these."""
    img = image(place, mib=16)
    call("sfdisk", "-q", img, text="label: gpt\nsize=6MiB\nsize=6MiB\n")
    device = loop(ends, img)
    # Also instead of partitions that the device had under another file.
    call("partx", "--update", device)
    ends.callback(_delete_partitions, device)
    return device, Path(f"{device}p1"), Path(f"{device}p2")


def _file(_ends: ExitStack, place: Path) -> Layers:
    return {"file": image(place)}


def _loop(ends: ExitStack, place: Path, *options: str) -> Layers:
    img = image(place)
    return {"file": img, "loop": loop(ends, img, *options)}


def _offset(ends: ExitStack, place: Path) -> Layers:
    return _loop(ends, place, "--offset", str(MIB), "--sizelimit", str(4 * MIB))


def _loop_over_loop(ends: ExitStack, place: Path) -> Layers:
    img = image(place)
    lower = loop(ends, img)
    return {"file": img, "lower": lower, "upper": loop(ends, lower)}


def _overlay(ends: ExitStack, place: Path) -> Layers:
    """Return a file on an overlay, and the file below that has its bytes."""
    for name in ("lower", "memory", "merged"):
        (place / name).mkdir()
    memory, merged = place / "memory", place / "merged"
    call("mount", "-t", "tmpfs", "none", memory)
    ends.callback(call, "umount", memory)
    for name in ("upper", "work"):
        (memory / name).mkdir()
    folders = f"lowerdir={place}/lower,upperdir={memory}/upper,workdir={memory}/work"
    call("mount", "-t", "overlay", "none", "-o", folders, merged)
    ends.callback(call, "umount", merged)
    return {"file": image(merged), "file-below": memory / "upper/img"}


def _loop_over_overlay(ends: ExitStack, place: Path) -> Layers:
    layers = _overlay(ends, place)
    return layers | {"loop": loop(ends, layers["file"])}


def _loop_below_overlay(ends: ExitStack, place: Path) -> Layers:
    layers = _overlay(ends, place)
    return layers | {"loop": loop(ends, layers["file-below"])}


def _partition(ends: ExitStack, place: Path) -> Layers:
    whole, first, second = disk(ends, place)
    return {"file": place / "img", "disk": whole, "partition": first, "neighbour": second}


def _loop_over_partition(ends: ExitStack, place: Path) -> Layers:
    layers = _partition(ends, place)
    return layers | {"loop": loop(ends, layers["partition"])}


NODES = {
    "file": Node(_file, "file", "file"),
    "loop": Node(_loop, "file loop", "loop", "loop"),
    "loop with offset": Node(_offset, "file loop", "loop", "loop"),
    "loop over loop": Node(_loop_over_loop, "file lower upper", "upper", "lower upper"),
    "overlay": Node(_overlay, "file-below file", "file"),
    "loop over overlay": Node(_loop_over_overlay, "file-below file loop", "loop", "loop"),
    "loop below overlay": Node(_loop_below_overlay, "file-below file loop", "loop", "loop"),
    "loop over partition": Node(
        *(_loop_over_partition, "file disk partition loop", "loop"),
        mountable="partition loop",
        others="neighbour",
    ),
    "partition": Node(
        _partition, "file disk partition", "partition", "partition", others="neighbour"
    ),
    "disk": Node(_partition, "file disk partition neighbour", "disk", "partition"),
}


def hold(ends: ExitStack, *command: str | Path) -> None:
    """Start a process that uses something from when it says so to the end."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    ends.callback(process.wait)
    ends.callback(process.kill)
    assert process.stdout is not None
    ends.callback(process.stdout.close)
    assert process.stdout.readline() == "ready\n", command


def _mounted(ends: ExitStack, layer: Path, place: Path) -> None:
    call("mount", *STILL, layer, place)
    ends.callback(call, "umount", place)


def _mounted_elsewhere(ends: ExitStack, layer: Path, place: Path) -> None:
    script = 'mount -o ro,noload "$0" "$1" && echo ready && exec sleep 1000'
    hold(ends, "unshare", "--mount", "sh", "-c", script, layer, place)


def _unmounted_lazily(ends: ExitStack, layer: Path, place: Path) -> None:
    call("mount", *STILL, layer, place)
    inside = os.open(place, os.O_RDONLY)
    ends.callback(os.close, inside)
    call("umount", "--lazy", place)


def _written(ends: ExitStack, layer: Path, _place: Path) -> None:
    hold(ends, "sh", "-c", 'exec 3<>"$0"; echo ready; exec sleep 1000', layer)


def _read(ends: ExitStack, layer: Path, _place: Path) -> None:
    hold(ends, "sh", "-c", 'exec 3<"$0"; echo ready; exec sleep 1000', layer)


MAPPER = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
fd = os.open(sys.argv[1], os.O_RDWR)
assert libc.mmap(None, 4096, 3, 1, fd, 0) != ctypes.c_void_p(-1).value
os.close(fd)
print("ready", flush=True)
time.sleep(1000)
"""


def _mapped(ends: ExitStack, layer: Path, _place: Path) -> None:
    hold(ends, sys.executable, "-c", MAPPER, layer)


REGISTERER = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
ring = libc.syscall(425, 4, ctypes.create_string_buffer(120))
fd = os.open(sys.argv[1], os.O_RDWR)
assert libc.syscall(427, ring, 2, (ctypes.c_int * 1)(fd), 1) == 0
os.close(fd)
if sys.argv[2:]:
    libc.mmap.restype = ctypes.c_void_p
    assert libc.mmap(None, 4096, 3, 1, ring, ctypes.c_long(0)) != ctypes.c_void_p(-1).value
    os.close(ring)
print("ready", flush=True)
time.sleep(1000)
"""
SENDER = """
import os, socket, sys, time
here, there = socket.socketpair()
fd = os.open(sys.argv[1], os.O_RDWR)
socket.send_fds(here, [b"x"], [fd])
os.close(fd)
print("ready", flush=True)
time.sleep(1000)
"""


def _mapped_to_read(ends: ExitStack, layer: Path, _place: Path) -> None:
    """Map what was opened for writing so that it can be made writable later."""
    hold(ends, sys.executable, "-c", MAPPER.replace("4096, 3", "4096, 1"), layer)


def _registered(ends: ExitStack, layer: Path, _place: Path) -> None:
    hold(ends, sys.executable, "-c", REGISTERER, layer)


def _registered_blindly(ends: ExitStack, layer: Path, _place: Path) -> None:
    """Close the ring's own descriptor, too."""
    hold(ends, sys.executable, "-c", REGISTERER, layer, "closed")


def _sent(ends: ExitStack, layer: Path, _place: Path) -> None:
    hold(ends, sys.executable, "-c", SENDER, layer)


def _held_by_a_namespace(ends: ExitStack, layer: Path, place: Path) -> None:
    """Mount it in a namespace in which no process is, and which a descriptor keeps."""
    script = 'mount -o ro,noload "$0" "$1" && echo ready && exec sleep 1000'
    command = ("unshare", "--mount", "sh", "-c", script, layer, place)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        ends.callback(os.close, os.open(f"/proc/{process.pid}/ns/mnt", os.O_RDONLY))
    finally:
        process.kill()
        process.communicate()


def _claimed(ends: ExitStack, layer: Path, _place: Path) -> None:
    ends.callback(os.close, os.open(layer, os.O_RDONLY | os.O_EXCL))


def _second_loop(ends: ExitStack, layer: Path, _place: Path) -> None:
    loop(ends, layer)


def _distant_loop(ends: ExitStack, layer: Path, _place: Path) -> None:
    loop(ends, layer, "--read-only", "--offset", str(3 * MIB), "--sizelimit", str(MIB))


def _mounted_loop(ends: ExitStack, layer: Path, place: Path) -> None:
    _mounted(ends, loop(ends, layer, "--read-only"), place)


EXT4 = ("mkfs.ext4", "-q", "-F")
HELD = ("holds without a descriptor", "process has the file open")
LOOPED = ("behind the loop device",)
MOUNTS = {
    "mounted": User(_mounted, ("is mounted at",), EXT4),
    "mounted elsewhere": User(_mounted_elsewhere, ("is mounted at",), EXT4),
    "unmounted lazily": User(_unmounted_lazily, ("the kernel says",), EXT4),
    "held by a namespace": User(_held_by_a_namespace, ("the kernel says",), EXT4),
    "loop mounted": User(_mounted_loop, LOOPED, EXT4),
}
LOOPS = {"second loop": User(_second_loop, LOOPED), "distant loop": User(_distant_loop, LOOPED)}
PROCESSES = {
    "written": User(_written, ("in use by the process", "process has the file open")),
    "mapped": User(_mapped, ("by a mapping of the process", "process has the file open")),
    "mapped to read": User(
        _mapped_to_read, ("by a mapping of the process", "process has the file open")
    ),
    "registered": User(_registered, HELD),
    "registered blindly": User(_registered_blindly, HELD),
    "sent": User(_sent, HELD),
    "read": User(_read, ("process has the file open",)),
}
CLAIMS = {"claimed": User(_claimed, ("the kernel says",))}
USERS = {**MOUNTS, **LOOPS, **PROCESSES, **CLAIMS}
NO_MORE: Mapping[str, User] = {}
Way = tuple[str, Path, int | None, list[str]]
"""A way to name a target, the path, a descriptor that the program must have, and its words."""


@dataclass(frozen=True)
class Case:
    """A user of one layer of a node, or of what stands beside it."""

    node: str
    layer: str
    user: str
    is_free: bool = False
    """It must be written all the same."""

    def __str__(self) -> str:
        return f"{self.node}, {self.layer} {self.user}"


def _users(node: Node, layer: str, more: Mapping[str, User]) -> Iterator[str]:
    is_file = layer.startswith("file")
    yield from (*LOOPS, *PROCESSES, *node.own.get(layer, ()))
    if is_file:
        yield from (name for name, user in more.items() if user.is_of_files)
    elif layer not in node.held.split():
        yield from (*CLAIMS, *more)
        yield from MOUNTS if layer in node.mountable.split() else ()


def cases(nodes: Mapping[str, Node] = NODES, more: Mapping[str, User] = NO_MORE) -> Iterator[Case]:
    """Yield all cases of these nodes; `more` are users of devices beside those known here."""
    for name, node in nodes.items():
        for layer in node.layers.split():
            for user in _users(node, layer, more):
                # Who reads a device harms nobody; of a file the kernel knows only that it is open.
                is_free = user == "read" and not node.target.startswith("file")
                yield Case(name, layer, user, is_free)
        yield from (Case(name, other, "mounted", is_free=True) for other in node.others.split())


def kernel_name(target: Path) -> Path:
    """Return the path in /dev by which the kernel calls a device, of a file its own path."""
    status = target.stat()
    if not stat.S_ISBLK(status.st_mode):
        return target
    numbers = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    return Path("/dev") / Path(f"/sys/dev/block/{numbers}").resolve().name


def names(ends: ExitStack, place: Path, target: Path) -> Iterator[tuple[str, Path, int | None]]:
    """Yield the ways to name a target, each with a descriptor that the program must have."""
    yield "name", target, None
    link = place / "link"
    link.symlink_to(target)
    yield "symlink", link, None
    hard = target.with_name(f"campaign-{os.getpid()}-{target.name}")
    hard.hardlink_to(target)
    ends.callback(hard.unlink)
    yield "hard link", hard, None
    if stat.S_ISBLK(target.stat().st_mode):
        os.mknod(place / "twin", 0o600 | stat.S_IFBLK, target.stat().st_rdev)
        yield "twin", place / "twin", None
    fd = os.open(target, os.O_PATH)
    ends.callback(os.close, fd)
    yield "descriptor", Path(f"/proc/self/fd/{fd}"), fd
    known_as = kernel_name(target)
    if known_as != target:
        yield "kernel's name", known_as, None
    bound = place / "bound"
    bound.touch()
    call("mount", "--bind", target, bound)
    ends.callback(call, "umount", bound)
    yield "bind mount", bound, None


def content_of(path: Path) -> bytes:
    """Return what is behind the caches of a device, or in a file."""
    with path.open("rb", buffering=0) as file:
        if stat.S_ISBLK(path.stat().st_mode):
            ioctl(file, BLKFLSBUF)
        size = file.seek(0, os.SEEK_END)
        return os.pread(file.fileno(), size, 0)


@dataclass
class Player:
    """The program with a plan, and the summary that it writes."""

    plan: Path
    summary: Path
    program: tuple[str, ...] = ("tracekit-replay",)
    is_brief: bool = False
    """Each case by one of the ways in turn, and without its user only if it is the last one."""

    def some(self, ways: list[Way], number: int) -> list[Way]:
        """Return the ways that a case is tried by."""
        return [ways[number % len(ways)]] if self.is_brief else ways

    def run(
        self, path: Path, fd: int | None, *words: str, reasons: tuple[str, ...] = ()
    ) -> tuple[int, str]:
        """Replay on a target; return the exit code and what was said.

        It is tried again while it says only why a target is not free yet, and no reason of these.
        """
        until_s = time.monotonic() + PATIENCE_S
        while True:
            code, said = self._run(path, fd, *words)
            is_over = not any(word in said for word in NOT_YET_FREE) or time.monotonic() > until_s
            if is_over or any(reason in said for reason in reasons):
                return code, said
            time.sleep(0.1)

    def _run(self, path: Path, fd: int | None, *words: str) -> tuple[int, str]:
        line = [*self.program, str(self.plan), "--target", str(path), "--pace", "fast"]
        done = subprocess.run(
            [*line, "--summary", str(self.summary), *words],
            pass_fds=[] if fd is None else [fd],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        return done.returncode, done.stderr.strip()

    def confirm(self, path: Path, fd: int | None) -> list[str]:
        """Return the words of somebody who insists, as a dry run says them."""
        code, said = self.run(path, fd, "--dry-run")
        assert code == 0, said
        token = json.loads(self.summary.read_text())["targets"][0]["confirm_with"]
        allowed = [word for name in ALLOWED for word in ("--overwrite-signature", name)]
        return ["--write-to", token, *allowed]


@dataclass
class Stand:
    """A target that stands, with all that it shares bytes with."""

    node: Node
    place: Path
    layers: Layers
    ways: list[Way]
    known: list[bytes] = field(default_factory=list)
    """What the layers held when they were last looked at, unless they were written to since."""

    def contents(self, names: str) -> list[bytes]:
        """Return what some layers hold, the highest first: what waits there is written below."""
        return [content_of(self.layers[name]) for name in reversed(names.split())]

    def still(self) -> list[bytes]:
        """Return what the layers hold as soon as that does not change any more."""
        found = self.known or self.contents(self.node.layers)
        while self.node.is_restless:
            time.sleep(0.1)
            last, found = found, self.contents(self.node.layers)
            if found == last:
                break
        return found

    def wipe(self) -> None:
        """Take away what an earlier case has written."""
        self.known = []
        with self.layers[self.node.target].open("r+b", buffering=0) as target:
            target.write(bytes(MIB))
            os.fsync(target)


@contextmanager
def standing(node: Node, player: Player) -> Iterator[Stand]:
    """Build a target and name it in all ways of the player."""
    folder = tempfile.TemporaryDirectory(prefix="campaign-")
    with folder as name, ExitStack() as ends:
        place = Path(name)
        (place / "mnt").mkdir()
        layers = node.build(ends, place)
        ways = [
            (way, path, fd, player.confirm(path, fd))
            for way, path, fd in names(ends, place, layers[node.target])
        ]
        yield Stand(node, place, layers, ways)


def _problems(
    case: Case, user: User, runs: list[tuple[str, int, str]], *, is_changed: bool
) -> Iterator[str]:
    for way, code, said in runs:
        # A refusal says why, in one line.
        _, is_refused, why = said.partition("is refused: ")
        is_right = any(reason in why for reason in user.reasons) and "\n" not in said
        if (code != 0) if case.is_free else (code != 1 or not is_refused or not is_right):
            yield f"{case}, by its {way}: exit code {code}, {said or 'written'}"
    if is_changed != case.is_free:
        yield f"{case}: what it shares bytes with {'has' if is_changed else 'has not'} changed"


def try_on(
    stand: Stand, case: Case, player: Player, user: User, ways: list[Way]
) -> tuple[int, list[str]]:
    """Return how many replays were tried beside the user, and what went wrong."""
    node, layer = stand.node, stand.layers[case.layer]
    if user.makes or not stand.known:
        stand.wipe()
    if user.makes:
        call(*user.makes, layer)
    with ExitStack() as use:
        user.use(use, layer, stand.place / "mnt")
        before, beside = stand.still(), stand.contents(node.others)
        runs = [
            (way, *player.run(path, fd, *words, reasons=() if case.is_free else user.reasons))
            for way, path, fd, words in ways
        ]
        after = stand.contents(node.layers)
        is_beside_changed = stand.contents(node.others) != beside
    stand.known = after if after == before else []
    problems = list(_problems(case, user, runs, is_changed=after != before))
    if is_beside_changed:
        problems.append(f"{case}: what stands beside it has changed")
    return len(runs), problems


def try_free(stand: Stand, case: Case, player: Player) -> list[str]:
    """Return what went wrong without the user: only he was in the way."""
    stand.wipe()
    before, beside = stand.contents(stand.node.layers), stand.contents(stand.node.others)
    stand.known = []
    _, path, fd, words = stand.ways[0]
    code, said = player.run(path, fd, *words)
    if code != 0 or stand.contents(stand.node.layers) == before:
        return [f"{case}: not written without the user: exit code {code}, {said}"]
    if stand.contents(stand.node.others) != beside:
        return [f"{case}: without the user what stands beside it has changed"]
    return []


def try_node(
    node: Node, chosen: list[Case], player: Player, users: Mapping[str, User] = USERS
) -> Iterator[tuple[Case, int, list[str]]]:
    """Try cases of one node and yield how many replays each took, and what went wrong."""
    rest = list(chosen)
    while rest:
        stood = None
        try:
            with standing(node, player) as stood:
                while rest:
                    ways = player.some(stood.ways, len(rest))
                    count, problems = try_on(stood, rest[0], player, users[rest[0].user], ways)
                    if not player.is_brief or len(rest) == 1:
                        problems += try_free(stood, rest[0], player)
                    yield rest.pop(0), count, problems
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            # What is left of this one must not be in the way of the next one.
            for case in rest[: 1 if stood else None] or chosen[-1:]:
                yield case, 0, [f"{case}: could not be tried: {error}"]
            rest = rest[1:] if stood else []


def try_all(player: Player) -> Iterator[tuple[str, int]]:
    """Try all cases of this machine; yield what to print and how much was wrong until then."""
    wrong = runs = number = 0
    began_s = time.monotonic()
    for name, chosen in groupby(cases(), key=lambda case: case.node):
        for _, count, problems in try_node(NODES[name], list(chosen), player):
            wrong, runs, number = wrong + len(problems), runs + count, number + 1
            yield from ((line, wrong) for line in problems)
        done = f"{number} cases, {runs} replays beside a user, {wrong} problems"
        yield f"{name} ended after {time.monotonic() - began_s:.0f} s: so far {done}", wrong


def main() -> int:
    """Try all cases on this machine."""
    from tests.replay.program import WRITES, write_plan
    from tracekit._native import program_path

    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        plan = write_plan(Path(folder) / "a.plan", WRITES[:1])
        player = Player(plan, Path(folder) / "summary.json", (str(program_path()),))
        for line, count in try_all(player):
            wrong = count
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
