"""Which modules of a kernel the guest loads, and in which order."""

import lzma
from pathlib import Path

import pytest

from tracekit.errors import TracekitError
from tracekit.lab.image import WANTED, in_loading_order


def write_module(folder: Path, name: str, facts: bytes = b"depends=\0") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    content = b"\x7fELF\0" + facts + b"vermagic=6.1\0"
    path.write_bytes(lzma.compress(content) if path.suffix == ".xz" else content)
    return path


def test_a_module_comes_behind_what_it_needs(tmp_path: Path) -> None:
    # GIVEN a kernel whose ext4 needs jbd2, jbd2 softly crc32c, and a packed virtio that needs more
    special = {"ext4", "virtio_pci"}
    for name in WANTED:
        if name not in special:
            write_module(tmp_path, f"{name}.ko")
    write_module(tmp_path, "fs/ext4.ko", b"depends=jbd2\0softdep=pre: no-such post: late\0")
    write_module(tmp_path, "fs/jbd2.ko", b"softdep=pre: crypto-x\0depends=\0")
    write_module(tmp_path, "crypto/crypto-x.ko")
    write_module(tmp_path, "virtio-pci.ko.xz", b"depends=virtio-ring,virtio\0")
    for name in ("virtio_ring.ko", "virtio.ko.xz", "late.ko", "unused.ko"):
        write_module(tmp_path, name)
    # WHEN the order is asked for
    names = [path.name for path in in_loading_order(tmp_path)]
    # THEN each needed module is there once, before its user, and no other one is
    assert names == [
        *("crc32c_generic.ko", "virtio_ring.ko", "virtio.ko.xz", "virtio-pci.ko.xz"),
        *("virtio_blk.ko", "crypto-x.ko", "jbd2.ko", "ext4.ko", "overlay.ko", "configfs.ko"),
        *("libnvdimm.ko", "nd_e820.ko", "nd_pmem.ko", "null_blk.ko"),
        *("dm_mod.ko", "dm_flakey.ko", "device_dax.ko", "dax_pmem.ko"),
    ]


def test_a_kernel_without_a_module_is_refused(tmp_path: Path) -> None:
    write_module(tmp_path, "crc32c_generic.ko")
    with pytest.raises(TracekitError, match="no module virtio_pci"):
        in_loading_order(tmp_path)
