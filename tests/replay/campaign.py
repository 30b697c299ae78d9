"""Nothing is written that somebody else uses: every node, by every name, beside every user.

`python -m tests.replay.campaign` tries all cases, as root. Its parts need no package, so that
a guest of the lab tries nodes and users of its own. The plan must write in a target's first MiB.
"""

import hashlib
import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path

MIB = 1 << 20
BLKFLSBUF = 0x1261
ALLOWED = ("ext", "mbr", "gpt", "swap", "lvm", "md", "bcache")
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


def call(*command: str | Path, text: str = "") -> str:
    """Run a command that must succeed and return what it printed."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout.strip()


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


def disk(ends: ExitStack, place: Path) -> tuple[Path, Path, Path]:
    """Return a loop device with two partitions, and these."""
    img = image(place, mib=16)
    call("sfdisk", "-q", img, text="label: gpt\nsize=6MiB\nsize=6MiB\n")
    device = loop(ends, img)
    # Also instead of partitions that the device had under another file.
    call("partx", "--update", device)
    ends.callback(call, "partx", "--delete", device)
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


def _claimed(ends: ExitStack, layer: Path, _place: Path) -> None:
    ends.callback(os.close, os.open(layer, os.O_RDONLY | os.O_EXCL))


def _second_loop(ends: ExitStack, layer: Path, _place: Path) -> None:
    loop(ends, layer)


def _distant_loop(ends: ExitStack, layer: Path, _place: Path) -> None:
    loop(ends, layer, "--read-only", "--offset", str(3 * MIB), "--sizelimit", str(MIB))


def _mounted_loop(ends: ExitStack, layer: Path, place: Path) -> None:
    _mounted(ends, loop(ends, layer, "--read-only"), place)


MOUNTS: dict[str, Use] = {
    "mounted": _mounted,
    "mounted elsewhere": _mounted_elsewhere,
    "unmounted lazily": _unmounted_lazily,
    "loop mounted": _mounted_loop,
}
LOOPS: dict[str, Use] = {"second loop": _second_loop, "distant loop": _distant_loop}
PROCESSES: dict[str, Use] = {"written": _written, "mapped": _mapped, "read": _read}
CLAIMS: dict[str, Use] = {"claimed": _claimed}
NO_MORE: Mapping[str, Use] = {}
FORMATS = dict.fromkeys(MOUNTS, ("mkfs.ext4", "-q", "-F")) | {"swap": ("mkswap", "-f")}
"""What a layer must hold for a user; it is made before."""
WAYS = ("name", "symlink", "hard link", "twin", "descriptor", "bind mount")


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


def _users(node: Node, layer: str, more: Mapping[str, Use]) -> Iterator[str]:
    yield from (*LOOPS, *PROCESSES)
    if not layer.startswith("file") and layer not in node.held.split():
        yield from (*CLAIMS, *more)
        yield from MOUNTS if layer in node.mountable.split() else ()


def cases(nodes: Mapping[str, Node] = NODES, more: Mapping[str, Use] = NO_MORE) -> Iterator[Case]:
    """Yield all cases of these nodes; `more` are users of devices beside those known here."""
    for name, node in nodes.items():
        for layer in node.layers.split():
            for user in _users(node, layer, more):
                # Who reads a device harms nobody; of a file the kernel knows only that it is open.
                is_free = user == "read" and node.layers != "file"
                yield Case(name, layer, user, is_free)
        yield from (Case(name, other, "mounted", is_free=True) for other in node.others.split())


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
    bound = place / "bound"
    bound.touch()
    call("mount", "--bind", target, bound)
    ends.callback(call, "umount", bound)
    yield "bind mount", bound, None


def digest(path: Path) -> str:
    """Return a hash of what is behind the caches of a device, or in a file."""
    if stat.S_ISBLK(path.stat().st_mode):
        with path.open("rb") as device:
            ioctl(device, BLKFLSBUF)
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@dataclass
class Player:
    """The program with a plan, and the summary that it writes."""

    plan: Path
    summary: Path
    program: str = "tracekit-replay"
    ways: tuple[str, ...] = WAYS

    def run(self, path: Path, fd: int | None, *words: str) -> tuple[int, str]:
        """Replay on a target; return the exit code and what was said."""
        line = [self.program, str(self.plan), "--target", str(path), "--pace", "fast"]
        done = subprocess.run(
            [*line, "--summary", str(self.summary), *words],
            pass_fds=[] if fd is None else [fd],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr.strip()

    def confirm(self, path: Path, fd: int | None) -> list[str]:
        """Return the words of somebody who insists, as a dry run says them."""
        code, said = self.run(path, fd, "--dry-run")
        assert code == 0, said
        token = json.loads(self.summary.read_text())["targets"][0]["confirm_with"]
        allowed = [word for name in ALLOWED for word in ("--overwrite-signature", name)]
        return ["--write-to", token, *allowed]


def _problems(case: Case, runs: list[tuple[str, int, str]], *, is_changed: bool) -> Iterator[str]:
    for way, code, said in runs:
        # A refusal says why, in one line.
        is_refused = code == 1 and "is refused: " in said and "\n" not in said
        if (code != 0) if case.is_free else not is_refused:
            yield f"{case}, by its {way}: exit code {code}, {said or 'written'}"
    if is_changed != case.is_free:
        yield f"{case}: what it shares bytes with {'has' if is_changed else 'has not'} changed"


def try_case(
    case: Case,
    player: Player,
    nodes: Mapping[str, Node] = NODES,
    more: Mapping[str, Use] = NO_MORE,
) -> tuple[int, list[str]]:
    """Return how many replays were tried beside the user, and what went wrong."""
    node = nodes[case.node]
    use = {**MOUNTS, **LOOPS, **PROCESSES, **CLAIMS, **more}[case.user]
    folder = tempfile.TemporaryDirectory(prefix="campaign-")
    with folder as name, ExitStack() as ends:
        place = Path(name)
        layers = node.build(ends, place)
        if case.user in FORMATS:
            call(*FORMATS[case.user], layers[case.layer])
        target = layers[node.target]
        ways = [
            (way, path, fd, player.confirm(path, fd))
            for way, path, fd in names(ends, place, target)
            if way in player.ways
        ]
        (place / "mnt").mkdir()

        def digests(names: str) -> list[str]:
            return [digest(layers[layer]) for layer in names.split()]

        before, beside = digests(node.layers), digests(node.others)
        with ExitStack() as user:
            use(user, layers[case.layer], place / "mnt")
            runs = [(way, *player.run(path, fd, *words)) for way, path, fd, words in ways]
        problems = list(_problems(case, runs, is_changed=digests(node.layers) != before))
        # Without the user the same is written: only he was in the way.
        _, path, fd, words = ways[0]
        code, said = player.run(path, fd, *words)
        if code != 0 or digests(node.layers) == before:
            problems.append(f"{case}: not written without the user: exit code {code}, {said}")
        if digests(node.others) != beside:
            problems.append(f"{case}: what stands beside it has changed")
        return len(runs), problems


def try_all(
    player: Player,
    nodes: Mapping[str, Node] = NODES,
    more: Mapping[str, Use] = NO_MORE,
    *,
    every: int = 1,
) -> Iterator[str]:
    """Try one of so many cases and yield what went wrong, at the end how many were tried."""
    wrong = runs = 0
    chosen = list(cases(nodes, more))[::every]
    for case in chosen:
        try:
            count, problems = try_case(case, player, nodes, more)
        except (AssertionError, OSError) as error:
            count, problems = 0, [f"{case}: could not be tried: {error}"]
        wrong, runs = wrong + len(problems), runs + count
        yield from problems
    yield f"{len(chosen)} cases, {runs} replays beside a user, {wrong} problems"


def main() -> None:
    """Try all cases on this machine."""
    from tests.replay.program import WRITES, write_plan

    with tempfile.TemporaryDirectory() as folder:
        plan = write_plan(Path(folder) / "a.plan", WRITES[:1])
        for line in try_all(Player(plan, Path(folder) / "summary.json")):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
