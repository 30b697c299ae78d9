"""The kernel of a guest: unpacked on the host, its modules in their order, without signatures."""

import lzma
import struct
from pathlib import Path

import pytest

from tracekit.errors import TracekitError
from tracekit.lab.image import WANTED, in_loading_order, unpack_kernel, without_signature

KERNEL = b"\x7fELF" + bytes(range(256)) * 40
XZ = lzma.compress(KERNEL, lzma.FORMAT_XZ)


def bz_image(payload: bytes, *, setup_sectors: int = 3, version: int = 0x20F) -> bytes:
    """Return a file as boot.rst has it: sectors of setup, 100 bytes of program, the payload."""
    setup = bytearray(512 * ((setup_sectors or 4) + 1))
    setup[0x1F1] = setup_sectors
    setup[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", setup, 0x206, version)
    struct.pack_into("<II", setup, 0x248, 100, len(payload))
    return bytes(setup) + bytes(100) + payload + b"behind it"


@pytest.mark.parametrize("setup_sectors", [0, 3, 39])
def test_what_the_header_points_at_is_unpacked(tmp_path: Path, setup_sectors: int) -> None:
    # GIVEN a packed kernel with the size of its content behind the stream, as Linux builds it
    payload = XZ + struct.pack("<I", len(KERNEL))
    (tmp_path / "vmlinuz").write_bytes(bz_image(payload, setup_sectors=setup_sectors))
    # WHEN it is unpacked, THEN the kernel is there and nothing else
    unpack_kernel(tmp_path / "vmlinuz", tmp_path / "vmlinux")
    assert (tmp_path / "vmlinux").read_bytes() == KERNEL


@pytest.mark.parametrize("packing", [b"\x1f\x8b\x08 of gzip", b"\x28\xb5\x2f\xfd of zstd"])
def test_a_kernel_packed_in_another_way_unpacks_itself(tmp_path: Path, packing: bytes) -> None:
    (tmp_path / "vmlinuz").write_bytes(bz_image(packing))
    unpack_kernel(tmp_path / "vmlinuz", tmp_path / "vmlinux")
    assert (tmp_path / "vmlinux").read_bytes() == bz_image(packing)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no packed Linux kernel"),
        (bytes(5000), "no packed Linux kernel"),
        (bz_image(XZ, version=0x207), "no packed Linux kernel"),
        (bz_image(b""), "no packed Linux kernel"),
        (bz_image(XZ[:40] + bytes(40) + XZ[80:]), "the packed kernel is damaged"),
        (bz_image(XZ[:-40]), "the packed kernel is damaged"),
        (bz_image(lzma.compress(b"no kernel")), "what is packed in it is no kernel"),
    ],
)
def test_what_is_no_such_kernel_is_named(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "vmlinuz").write_bytes(data)
    with pytest.raises(TracekitError, match=message):
        unpack_kernel(tmp_path / "vmlinuz", tmp_path / "vmlinux")
    assert not (tmp_path / "vmlinux").exists()


def test_a_signature_behind_a_module_is_left_out() -> None:
    # GIVEN a module with 5 bytes of signature, struct module_signature and the mark behind it
    facts = bytes([0, 0, 2, 0, 0, 0, 0, 0]) + struct.pack(">I", 5)
    signed = b"\x7fELF the module" + b"12345" + facts + b"~Module signature appended~\n"
    assert without_signature(signed) == b"\x7fELF the module"
    # AND one without is as it was
    assert without_signature(b"\x7fELF the module") == b"\x7fELF the module"


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
        *("nvme.ko", "quota_v2.ko"),
    ]


def test_a_kernel_without_a_module_is_refused(tmp_path: Path) -> None:
    write_module(tmp_path, "crc32c_generic.ko")
    with pytest.raises(TracekitError, match="no module virtio_pci"):
        in_loading_order(tmp_path)
