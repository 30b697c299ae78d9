"""Plan files, which the replayer runs whatever they were made of, and what both kinds share."""

from __future__ import annotations

import zlib
from typing import IO, Any

import numpy as np
import numpy.typing as npt

Records = npt.NDArray[np.void]


def layout(text: str) -> np.dtype[Any]:
    """Return the type of records with these fields: `u4 version, S8 label, 5u8 counts`.

    Types are those of numpy; numbers are little-endian.
    """
    fields = (field.split() for field in text.split(","))
    return np.dtype([(name, kind.replace("u", "<u")) for kind, name in fields])


def bytes_of(records: Records) -> memoryview:
    """Return the bytes of contiguous records, without a copy."""
    return records.view(np.uint8).data


def write_header(file: IO[bytes], kind: np.dtype[Any], *, values: dict[str, Any]) -> None:
    """Write a header to the beginning of a file; its last field is the CRC-32 of the others."""
    header = np.zeros((), kind)
    for name, value in values.items():
        header[name] = value
    header["header_crc32"] = zlib.crc32(header.tobytes()[: kind.itemsize - 4])
    file.seek(0)
    file.write(header.tobytes())
