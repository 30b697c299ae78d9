"""The guest's kernel is unpacked on the host, and its modules come without signatures."""

import lzma
import struct
from pathlib import Path

import pytest

from tracekit.errors import TracekitError
from tracekit.lab.image import unpack_kernel, without_signature

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
