"""The guest's kernel without its packing: a guest without KVM takes seconds to unpack it."""

from __future__ import annotations

import lzma
import struct
from pathlib import Path

from tracekit.errors import TracekitError

# The setup header of Linux on x86, Documentation/arch/x86/boot.rst.
SETUP_SECTORS = 0x1F1
MAGIC = (0x202, b"HdrS")
VERSION = 0x206
PAYLOAD = 0x248
OLDEST_WITH_PAYLOAD = 0x0208
SECTOR_BYTES = 512
XZ = b"\xfd7zXZ\x00"
ELF = b"\x7fELF"


def unpack_kernel(packed: Path, target: Path) -> None:
    """Write the ELF kernel that a Debian vmlinuz holds; QEMU starts it through its PVH entry.

    One that is packed in another way than by xz is copied: it unpacks itself, which takes longer.
    Raise TracekitError where the file is no kernel or is damaged.
    """
    data = packed.read_bytes()
    payload = _payload(data)
    if not payload:
        raise TracekitError(f"{packed}: no packed Linux kernel")
    if not payload.startswith(XZ):
        target.write_bytes(data)
        return
    try:
        # Behind the stream lies the size of what it holds: a decompressor ends before it.
        unpacking = lzma.LZMADecompressor(lzma.FORMAT_XZ)
        kernel = unpacking.decompress(payload)
    except lzma.LZMAError as error:
        raise TracekitError(f"{packed}: the packed kernel is damaged: {error}") from None
    if not unpacking.eof:
        raise TracekitError(f"{packed}: the packed kernel is damaged: it ends too early")
    if not kernel.startswith(ELF):
        raise TracekitError(f"{packed}: what is packed in it is no kernel")
    target.write_bytes(kernel)


def _payload(data: bytes) -> bytes:
    """Return what the setup header says is the packed kernel; nothing if there is no header."""
    at, magic = MAGIC
    if len(data) < PAYLOAD + 8 or data[at : at + len(magic)] != magic:
        return b""
    (version,) = struct.unpack_from("<H", data, VERSION)
    if version < OLDEST_WITH_PAYLOAD:
        return b""
    offset, length = struct.unpack_from("<II", data, PAYLOAD)
    # Zero means four, as it did when the field was made.
    begin = ((data[SETUP_SECTORS] or 4) + 1) * SECTOR_BYTES + offset
    return data[begin : begin + length]
