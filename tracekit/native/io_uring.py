"""Whether the kernel lets this process use io_uring."""

from __future__ import annotations

import ctypes
import os

# The number is the same on every architecture; struct io_uring_params has 120 bytes.
_IO_URING_SETUP = 425
_PARAMS_BYTES = 120


def setup_errno() -> int:
    """Set up a ring of one entry and close it; return 0, or the errno that the kernel gave."""
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    params = ctypes.create_string_buffer(_PARAMS_BYTES)
    ring = syscall(_IO_URING_SETUP, 1, params)
    if ring < 0:
        return ctypes.get_errno()
    os.close(ring)
    return 0
