"""The campaign of tests/replay with nodes and users that only the guest's kernel has.

Prints a line for each case, on the console too: a guest that dies still says how far it came.
"""

import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from tests.replay import campaign
from tests.replay.campaign import Layers, Node, Player, User, call, hold, image, loop

TABLE = "0 8192 linear {} 2048"
NEIGHBOUR = "0 6144 linear {} 10240"
OVERLAP = "0 2048 linear {} 8192"
LVM = ("--config", "activation{udev_sync=0 udev_rules=0} devices{use_devicesfile=0}")
BLOCK, CONFIG = Path("/sys/block"), Path("/sys/kernel/config")
MAPPER = Path("/dev/mapper/control")
SUBSYSTEM = CONFIG / "nvmet/subsystems/campaign"
PARAMETERS = {"brd": ("rd_nr=1", "rd_size=8192")}
PARTS = "label: gpt\nsize=6MiB\nsize=6MiB\n"


def await_true(what: Callable[[], object]) -> None:
    for _ in range(400):
        if what():
            return
        time.sleep(0.025)
    raise AssertionError("it did not happen in time")


def mapped(ends: ExitStack, name: str, table: str) -> Path:
    """Make a device of the device mapper; its node stands beside the kernel's own dm-N."""
    call("dmsetup", "--noudevsync", "create", name, "--table", table)
    ends.callback(call, "dmsetup", "--noudevsync", "remove", "--retry", name)
    return Path(f"/dev/mapper/{name}")


def _linear(ends: ExitStack, place: Path) -> Layers:
    file = image(place)
    lower = loop(ends, file)
    target = mapped(ends, "target", TABLE.format(lower))
    neighbour = mapped(ends, "neighbour", NEIGHBOUR.format(lower))
    return {"file": file, "loop": lower, "linear": target, "neighbour": neighbour}


def _loop_over_linear(ends: ExitStack, place: Path) -> Layers:
    layers = _linear(ends, place)
    return layers | {"upper": loop(ends, layers["linear"])}


def _thin(ends: ExitStack, place: Path) -> Layers:
    file = image(place, mib=24)
    lower = loop(ends, file)
    meta = mapped(ends, "meta", f"0 8192 linear {lower} 0")
    data = mapped(ends, "data", f"0 40960 linear {lower} 8192")
    pool = mapped(ends, "pool", f"0 40960 thin-pool {meta} {data} 128 0")
    volumes = {}
    for number, name in enumerate(("thin", "neighbour")):
        call("dmsetup", "message", "pool", "0", f"create_thin {number}")
        volumes[name] = mapped(ends, name, f"0 16384 thin {pool} {number}")
    return {"file": file, "loop": lower, "data": data, "pool": pool, **volumes}


def _volume(ends: ExitStack, place: Path) -> Layers:
    file = image(place, mib=20)
    lower = loop(ends, file)
    call("lvm", "vgcreate", *LVM, "-q", "-y", "-s", "1M", "group", lower)
    ends.callback(call, "lvm", "vgremove", *LVM, "-q", "-y", "group")
    for name in ("target", "neighbour"):
        call("lvm", "lvcreate", *LVM, "-q", "-y", "-Wn", "-Zn", "-L", "8M", "-n", name, "group")
    volumes = {"volume": "group-target", "neighbour": "group-neighbour"}
    paths = {layer: Path(f"/dev/mapper/{name}") for layer, name in volumes.items()}
    return {"file": file, "loop": lower, **paths}


def _mirror(ends: ExitStack, place: Path) -> Layers:
    files = [image(place, name) for name in ("img", "other")]
    first, second = (loop(ends, file) for file in files)
    options = ("--level=1", "--raid-devices=2", "--metadata=1.2", "--assume-clean", "--run")
    call("mdadm", "--create", "/dev/md7", *options, first, second, text="y\n")
    ends.callback(call, "mdadm", "--stop", "/dev/md7")
    # It writes into its members when it was written to: at once, so that it is soon still again.
    (BLOCK / "md7/md/safe_mode_delay").write_text("0.01\n")
    return {
        "file": files[0],
        "member": first,
        "file of the other": files[1],
        "md": Path("/dev/md7"),
    }


def _split(ends: ExitStack, disk: Path) -> tuple[Path, Path]:
    call("sfdisk", "-q", disk, text=PARTS)
    stem = f"{disk}p" if disk.name[-1].isdigit() else str(disk)
    first, second = (Path(f"{stem}{number}") for number in (1, 2))
    await_true(second.exists)
    ends.callback(call, "partx", "--delete", disk)
    return first, second


def _partition(ends: ExitStack, place: Path) -> Layers:
    disk = _null(ends, place)["null"]
    first, second = _split(ends, disk)
    return {"disk": disk, "partition": first, "neighbour": second}


def _memory(_ends: ExitStack, _place: Path) -> Layers:
    return {"ram": Path("/dev/ram0")}


def _null(ends: ExitStack, _place: Path) -> Layers:
    folder = CONFIG / "nullb/campaign"
    folder.mkdir()
    ends.callback(folder.rmdir)
    for name, value in (("size", 16), ("memory_backed", 1), ("power", 1)):
        (folder / name).write_text(f"{value}\n")
    numbered = Path(f"/dev/nullb{(folder / 'index').read_text().strip()}")
    return {"null": next(path for path in (Path("/dev/campaign"), numbered) if path.exists())}


def _zram(ends: ExitStack, _place: Path, *, below: Path | None = None) -> Layers:
    number = Path("/sys/class/zram-control/hot_add").read_text().strip()
    ends.callback(Path("/sys/class/zram-control/hot_remove").write_text, number)
    folder = BLOCK / f"zram{number}"
    if below:
        (folder / "backing_dev").write_text(f"{below}\n")
    (folder / "disksize").write_text("8M\n")
    return {"zram": Path(f"/dev/zram{number}")}


def _zram_with_device(ends: ExitStack, place: Path) -> Layers:
    file = image(place)
    lower = loop(ends, file)
    return {"file": file, "loop": lower, **_zram(ends, place, below=lower)}


def serve(ends: ExitStack, place: Path, served: Path, device: Path) -> None:
    """Let a server of this machine hold something open and be the disk behind an nbd device."""
    config, door = place / f"{device.name}.conf", place / f"{device.name}.socket"
    port = 10809 + int(device.name.removeprefix("nbd"))
    config.write_text(f"[generic]\nport = {port}\nunixsock = {door}\n[a]\nexportname = {served}\n")
    hold(ends, "sh", "-c", 'echo ready; exec nbd-server -C "$0" -d 2>/dev/null', config)
    # It serves one client alone, so that nobody can ask whether it listens already.
    await_true(lambda: _is_connected(door, device))
    ends.callback(call, "nbd-client", "-d", device)
    await_true(lambda: int((BLOCK / device.name / "size").read_text()) > 0)


def _is_connected(door: Path, device: Path) -> bool:
    try:
        call("nbd-client", "-unix", door, device, "-N", "a", "-nonetlink")
    except AssertionError as error:
        if "CONNECT failed" in str(error):
            return False
        raise
    return True


def _nbd(ends: ExitStack, place: Path) -> Layers:
    device = Path("/dev/nbd0")
    serve(ends, place, image(place), device)
    return {"nbd": device}


def _cached(ends: ExitStack, place: Path) -> Layers:
    files = [image(place, name, mib=mib) for name, mib in (("img", 8), ("cache", 16), ("more", 8))]
    backing, cache, other = (loop(ends, file) for file in files)
    call("make-bcache", "--bucket", "16k", "-C", cache, "-B", backing, other)
    ends.callback(_stop_caches)
    made = []
    for number, device in enumerate((cache, backing, other)):
        register(device)
        if number:
            await_true(partial(_upon, device))
            made += _upon(device)
    await_true(lambda: all((BLOCK / path.name / "bcache/cache").exists() for path in made))
    layers = {"file": files[0], "backing": backing, "cache": cache}
    return layers | dict(zip(("bcache", "neighbour"), made, strict=True))


def register(device: Path) -> None:
    with suppress(OSError):  # the kernel may have found it by itself
        Path("/sys/fs/bcache/register").write_text(f"{device}\n")


def _upon(device: Path) -> list[Path]:
    """Return the bcache device that stands upon a backing device."""
    holders = Path("/sys/class/block") / campaign.kernel_name(device).name / "holders"
    return [Path("/dev") / path.name for path in holders.glob("bcache*")]


def _stop_caches() -> None:
    for path in (*BLOCK.glob("bcache*/bcache/stop"), *Path("/sys/fs/bcache").glob("*-*/stop")):
        with suppress(OSError):
            path.write_text("1\n")
    await_true(lambda: not [*BLOCK.glob("bcache*"), *Path("/sys/fs/bcache").glob("*-*")])


OVERLAPPED = {"loop": ("overlapped",)}
UNTOLD = ("told by nothing", "told nothing")
NODES = {
    "partition": Node(
        *(_partition, "disk partition", "partition", "partition", "disk", "neighbour"),
        own={"disk": ("exported", "claimed")},
    ),
    "null_blk": Node(_null, "null", "null", "null"),
    "ram": Node(_memory, "ram", "ram", "ram", needs="brd"),
    "linear": Node(
        *(_linear, "file loop linear", "linear", "linear", "loop", "neighbour"),
        own=OVERLAPPED | {"linear": UNTOLD},
    ),
    "loop over linear": Node(
        *(_loop_over_linear, "file loop linear upper", "upper", "linear upper", "loop"),
        others="neighbour",
        own=OVERLAPPED,
    ),
    "thin": Node(
        *(_thin, "file loop thin", "thin", "thin", "loop", "neighbour"),
        own={"thin": UNTOLD},
        needs="dm_thin_pool",
    ),
    "volume": Node(*(_volume, "file loop volume", "volume", "volume", "loop", "neighbour")),
    "mirror": Node(
        *(_mirror, "file member md", "md", "md", "member"), needs="raid1", is_restless=True
    ),
    "zram": Node(_zram, "zram", "zram", "zram", needs="zram"),
    "zram with a device": Node(
        _zram_with_device, "file loop zram", "zram", "zram", "loop", needs="zram"
    ),
    "nbd": Node(_nbd, "nbd", "nbd", "nbd", needs="nbd"),
    "bcache": Node(
        *(_cached, "file backing bcache", "bcache", "bcache", "backing", "neighbour"),
        needs="bcache",
        is_restless=True,
    ),
}


def _swap(ends: ExitStack, layer: Path, _place: Path) -> None:
    call("swapon", layer)
    ends.callback(call, "swapoff", layer)


def _mapped_upon(ends: ExitStack, layer: Path, _place: Path) -> None:
    mapped(ends, "upon", f"0 2048 linear {layer} 0")


def _overlapped(ends: ExitStack, layer: Path, _place: Path) -> None:
    mapped(ends, "overlap", OVERLAP.format(layer))


def _in_an_array(ends: ExitStack, layer: Path, _place: Path) -> None:
    how = ("--level=1", "--raid-devices=2", "--assume-clean")
    call("mdadm", "--build", "/dev/md8", *how, layer, "missing")
    ends.callback(call, "mdadm", "--stop", "/dev/md8")


def _in_bcache(ends: ExitStack, layer: Path, _place: Path) -> None:
    register(layer)
    await_true(lambda: _upon(layer))
    (upon,) = _upon(layer)
    ends.callback(await_true, lambda: not upon.exists())
    ends.callback((BLOCK / upon.name / "bcache/stop").write_text, "1\n")


def _exported(ends: ExitStack, layer: Path, _place: Path) -> None:
    namespace = SUBSYSTEM / "namespaces/1"
    SUBSYSTEM.mkdir()
    ends.callback(SUBSYSTEM.rmdir)
    namespace.mkdir()
    ends.callback(namespace.rmdir)
    (namespace / "buffered_io").write_text("1")
    (namespace / "device_path").write_text(str(layer))
    (namespace / "enable").write_text("1")
    ends.callback((namespace / "enable").write_text, "0")


def _served(ends: ExitStack, layer: Path, kind: str, words: str) -> None:
    adapter = CONFIG / f"target/core/{kind}_0"
    device = adapter / "campaign"
    device.mkdir(parents=True)
    ends.callback(adapter.rmdir)
    ends.callback(device.rmdir)
    (device / "control").write_text(words)
    if kind == "iblock":
        (device / "udev_path").write_text(str(layer))
    (device / "enable").write_text("1")


def _served_as_disk(ends: ExitStack, layer: Path, _place: Path) -> None:
    _served(ends, layer, "iblock", f"udev_path={layer}")


def _served_as_file(ends: ExitStack, layer: Path, _place: Path) -> None:
    _served(ends, layer, "fileio", f"fd_dev_name={layer},fd_dev_size={campaign.MIB}")


EXPORTS, PART = ("the kernel exports it",), ("is part of",)
USERS = {
    "swap": User(_swap, ("it is in use as swap",), ("mkswap", "-q", "-f")),
    "mapped upon": User(_mapped_upon, PART),
    "in an array": User(_in_an_array, PART, needs="raid1"),
    "in bcache": User(_in_bcache, PART, ("make-bcache", "--wipe-bcache", "-B"), needs="bcache"),
    "exported": User(_exported, EXPORTS, needs="nvmet", is_of_files=True),
    "served as disk": User(_served_as_disk, EXPORTS, needs="target_core_iblock"),
    "served as file": User(_served_as_file, EXPORTS, needs="target_core_file", is_of_files=True),
}


def _told_by_nothing(ends: ExitStack, _layer: Path, _place: Path) -> None:
    """Hide the device that tells the tables: its neighbour's may be anything."""
    hidden = MAPPER.rename(MAPPER.with_name("hidden"))
    ends.callback(hidden.rename, MAPPER)


def _told_nothing(ends: ExitStack, _layer: Path, _place: Path) -> None:
    call("mount", "--bind", "/dev/null", MAPPER)
    ends.callback(call, "umount", MAPPER)


OVER = {
    "overlapped": User(_overlapped, PART),
    "told by nothing": User(_told_by_nothing, PART),
    "told nothing": User(_told_nothing, PART),
}
ALIKE = ("distant loop", "mapped", "mapped to read", "registered blindly", "sent", "read")
"""Users of what is below a target that are on the host as they are here."""


def load_modules() -> None:
    """Load what lies in the folder, in its order; say what the kernel does not take."""
    for path in sorted(Path("modules").glob("*.ko")):
        name = path.stem.partition("-")[2].replace("-", "_")
        if not is_there(name):
            with suppress(AssertionError):
                call("busybox", "insmod", path, *PARAMETERS.get(name, ()))


def is_there(module: str) -> bool:
    return not module or Path(f"/sys/module/{module}").exists()


def tell(line: str) -> None:
    for path in ("cases", "/dev/console"):
        with Path(os.environ["LAB_OUT"], path).open("a") as output:
            output.write(f"{line}\n")


def main() -> None:
    """Try the nodes that are named, and write what came out."""
    os.environ |= {"DM_DISABLE_UDEV": "1", "MDADM_NO_UDEV": "1"}
    load_modules()
    Path("/var/target").mkdir(parents=True, exist_ok=True)
    more = {name: user for name, user in USERS.items() if is_there(user.needs)}
    for name in USERS.keys() - more.keys():
        tell(f"not had: {name}: the kernel has no module {USERS[name].needs}")
    # As the lab's own script of that name does, without a shell.
    start = Path("/lab/bin/tracekit-replay").read_text().partition("exec ")[2].split()[:-1]
    player = Player(Path("a.plan"), Path("/run/summary.json"), tuple(start), is_brief=True)
    begin_s = time.monotonic()
    for name in sys.argv[1:]:
        node = NODES[name]
        if not is_there(node.needs):
            tell(f"not had: {name}: the kernel has no module {node.needs}")
            continue
        users = campaign.USERS | more | OVER
        chosen = [
            case
            for case in campaign.cases({name: node}, more)
            # Upon bcache no second one comes up.
            if case.user in users.keys() - {f"in {name}"}
            and (case.layer == node.target or case.user not in ALIKE)
        ]
        for case, runs, problems in campaign.try_node(node, chosen, player, users):
            for line in problems:
                tell(f"problem: {line}")
            tell(f"{runs} replays, {time.monotonic() - begin_s:.1f} s: {case}")


if __name__ == "__main__":
    main()
