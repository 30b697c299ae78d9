"""The columns of requests as accesses to pages: `replayer/model/accesses.h` for numpy arrays."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracekit._native.handle import ACCESS, U32, U64, check, functions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

READ, WRITE, NEITHER = range(3)


@dataclass(frozen=True)
class AccessColumns:
    """Columns of requests; those of texts are indices into the table that is named with them.

    `first_keys` are the keys of the devices' page 0, `kinds` READ, WRITE or NEITHER of each
    operation, `roles` indices of schema.ROLES.
    """

    sector: NDArray[np.int64]
    length_bytes: NDArray[np.int64]
    device: NDArray[np.int32]
    operation: NDArray[np.int32]
    role: NDArray[np.int32]
    first_keys: NDArray[np.int64]
    kinds: NDArray[np.uint8]
    roles: NDArray[np.uint8]


class _Columns(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in AccessColumns.__annotations__),
        *((name, U32) for name in ("devices", "operations", "role_count", "page_shift")),
    ]


def make_accesses(columns: AccessColumns, page_bytes: int) -> tuple[NDArray[np.void], int]:
    """Return the accesses (ACCESS) of the reads and writes, and how many of these are impossible.

    `page_bytes` is a power of two from 512 on. Raise TracekitError for an index beyond its table.
    """
    import numpy as np

    count = len(columns.sector)
    arrays: dict[str, NDArray[Any]] = {
        name: np.ascontiguousarray(getattr(columns, name)) for name in AccessColumns.__annotations__
    }
    native = _Columns(
        *(array.ctypes.data for array in arrays.values()),
        len(columns.first_keys),
        len(columns.kinds),
        len(columns.roles),
        page_bytes.bit_length() - 1,
    )
    rows = np.empty(count, np.dtype(ACCESS))
    impossible = U64()
    made = functions().tk_accesses_make(
        ctypes.byref(native), count, rows.ctypes.data, ctypes.byref(impossible)
    )
    check(made)
    return rows[:made], impossible.value
