"""What a script leaves to an administrator: commands, as comments, each after "$ "."""

from __future__ import annotations

from tracekit.model.rival_kinds import LZ4_RATIO, CacheTimes
from tracekit.units import format_size

OVER = "over another, empty disk, to which the files are copied; the old one stays:"


def xfs_log(name: str, point: str) -> tuple[str, ...]:
    """Return how an XFS gets its log on the NVM: mkfs alone chooses it."""
    return (
        "Safe: a new XFS with -l logdev=/dev/NVM on another disk, and a copy. In place, where",
        "nothing but the dump has the files from mkfs on until they are restored:",
        _dump(point, "/backup/dump"),
        f"$ mkfs.xfs -f -l logdev=/dev/NVM {name}",
        f"$ mount -o logdev=/dev/NVM {name} {point} && xfsrestore -f /backup/dump {point}",
        "fstab needs logdev=/dev/NVM, too. undo:",
        _dump(point, "/backup/later"),
        f"$ mkfs.xfs -f {name}",
        f"$ mount {name} {point} && xfsrestore -f /backup/later {point}",
    )


def _dump(point: str, file: str) -> str:
    """Return how an XFS is saved: to a file of its own, as xfsdump takes none with a dump in it."""
    save = f"xfsdump -L all -M all -l 0 -f {file} {point}"
    return f"$ {save} && xfsrestore -t -f {file} && umount {point}"


def whole_copy(name: str, point: str) -> tuple[str, ...]:
    """Return how an ext4 goes to the NVM block by block, and back."""
    size = f"$(blockdev --getsize64 {name})"
    return (
        "The names by which fstab finds it go with the copy, the old one gets another UUID:",
        f"$ umount {point} && e2fsck -f -p {name}",
        f"$ dd if={name} of=/dev/NVM bs=4M conv=fsync",
        f"$ cmp -n {size} {name} /dev/NVM",
        f"$ tune2fs -U random {name} && e2label {name} ''",
        f"$ mount /dev/NVM {point}",
        "undo, which writes it back whole:",
        f"$ umount {point} && e2fsck -f -p /dev/NVM",
        f"$ dd if=/dev/NVM of={name} bs=4M iflag=count_bytes count={size} conv=fsync",
        f"$ cmp -n {size} {name} /dev/NVM && wipefs -a /dev/NVM",
        f"$ mount {name} {point}",
    )


def _copy(device: str) -> str:
    return f"$ mkfs.ext4 {device} && mount {device} /NEW && cp -a /OLD/. /NEW"


def lvm_cache(name: str) -> tuple[str, ...]:
    """Return how a disk gets a cache by LVM: writecache, writeback or writethrough."""
    kind = "--type writecache" if name == "writecache" else f"--type cache --cachemode {name}"
    return (
        f"A cache by LVM {OVER}",
        "$ vgcreate nvmcache /dev/EMPTY /dev/NVM",
        "$ lvcreate -n data -l 100%PVS nvmcache /dev/EMPTY",
        "$ lvcreate -n fast -l 100%PVS nvmcache /dev/NVM",
        "$ lvchange -an nvmcache/fast",
        f"$ lvconvert --yes {kind} --cachevol fast nvmcache/data",
        _copy("/dev/nvmcache/data"),
        "undo:",
        "$ lvconvert --yes --uncache nvmcache/data",
        "$ vgreduce nvmcache /dev/NVM && pvremove /dev/NVM",
    )


def cut_cache(variable: str) -> tuple[str, ...]:
    """Return what to do where the power went while LVM made a cache."""
    left = "GROUP-tracekit_cache_cvol"
    return (
        "If the power goes right behind lvconvert, LVM may not start the volume: 'Manual repair",
        "required', as its cache_check takes an empty cache for damaged. The next run, or undo,",
        f"mends that, with {variable}=/dev/GROUP/VOLUME. By hand, a - of GROUP is -- in the first:",
        f"$ dmsetup remove {left}-cmeta; dmsetup remove {left}-cdata",
        "$ lvconvert --yes --uncache GROUP/VOLUME && lvchange -ay GROUP/VOLUME",
    )


def bcache(mode: str) -> tuple[str, ...]:
    """Return how a disk gets a bcache; write-back or, by default, write-through."""
    option = "--writeback " if mode == "back" else ""
    return (
        f"A cache by bcache {OVER}",
        f"$ make-bcache {option}-C /dev/NVM -B /dev/EMPTY",
        _copy("/dev/bcache0"),
        "undo, and wait until /sys/block/bcache0/bcache/state is 'no cache':",
        "$ echo 1 > /sys/block/bcache0/bcache/detach",
    )


def open_cas(mode: str) -> tuple[str, ...]:
    """Return how a disk gets a cache by Open CAS (guide_tool_details of open-cas.com)."""
    return (
        f"A cache by Open CAS {OVER}",
        f"$ casadm --start-cache --cache-device /dev/NVM --cache-mode w{mode[0]}",
        "$ casadm --add-core --cache-id 1 --core-device /dev/EMPTY",
        _copy("/dev/cas1-1"),
        "undo, which writes back what is dirty:",
        "$ umount /NEW && casadm --stop-cache --cache-id 1",
    )


def zpool(*commands: str) -> tuple[str, ...]:
    """Return how a pool of ZFS gets a device of its own for something."""
    return (
        "It takes a pool of ZFS on the base device:",
        *commands,
        "undo, with the name of the mirror that zpool status prints:",
        "$ zpool remove POOL mirror-N",
    )


def zram(memory_bytes: int) -> tuple[str, ...]:
    """Return how swap goes to memory first; what the pages shrink to is assumed."""
    return (
        f"In {format_size(memory_bytes)} of memory, if pages shrink to 1/{LZ4_RATIO}:",
        "$ modprobe zram",
        f"$ zramctl --algorithm lz4 --size {round(memory_bytes * LZ4_RATIO)} /dev/zram0",
        "$ mkswap /dev/zram0 && swapon -p 200 /dev/zram0",
        "undo:",
        "$ swapoff /dev/zram0 && zramctl --reset /dev/zram0",
    )


def zswap(memory_bytes: int) -> tuple[str, ...]:
    """Return how pages are kept in memory before they go to the swap area."""
    return (
        f"PERCENT of the memory, {format_size(memory_bytes)}, is for it:",
        "$ echo PERCENT > /sys/module/zswap/parameters/max_pool_percent",
        "$ echo lz4 > /sys/module/zswap/parameters/compressor",
        "$ echo 1 > /sys/module/zswap/parameters/enabled",
        "undo:",
        "$ echo 0 > /sys/module/zswap/parameters/enabled",
    )


def rival_text(one: CacheTimes, *, is_lvm: bool, is_block: bool) -> tuple[str, ...]:
    """Return how a cache is made; a script for blocks of a logical volume makes some itself."""
    mode, special = f"write{one.mode}", "$ zpool add POOL special mirror /dev/A /dev/B"
    if one.rival in ("dm-writecache", "dm-cache"):
        name = "writecache" if one.rival == "dm-writecache" else mode
        if is_lvm:
            how = "Run this" if is_block else "Ask with --unit block, and run that script"
            return (f"{how} with CACHE={name}.",)
        return lvm_cache(name)
    texts = {
        "bcache": bcache(one.mode),
        "Open CAS": open_cas(one.mode),
        "ZFS log": zpool("$ zpool add POOL log mirror /dev/A /dev/B"),
        "ZFS special": zpool(special),
        "ZFS special, 32K": zpool(special, "$ zfs set special_small_blocks=32K POOL"),
        "zram": zram(one.capacity_bytes),
        "zswap": zswap(one.capacity_bytes),
    }
    return texts[one.rival]
