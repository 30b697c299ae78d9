"""A filter of system calls, as containers have it: `limited(numbers)` goes to `preexec_fn`."""

import ctypes
import errno
import struct
from collections.abc import Callable

IO_URING_SETUP, IO_URING_ENTER, IO_URING_REGISTER = 425, 426, 427  # the same on all machines
NO_NEW_PRIVS, SET_SECCOMP, FILTER = 38, 22, 2
LOAD, IF_EQUAL, END = 0x20, 0x15, 0x06
REFUSE, ALLOW = 0x00050000 | errno.EPERM, 0x7FFF0000


def limited(*numbers: int) -> Callable[[], None]:
    """Return a function after which these system calls fail with EPERM, for all children too."""
    steps = [struct.pack("HBBI", LOAD, 0, 0, 0)]  # the number of the call
    for left, number in zip(range(len(numbers), 0, -1), numbers, strict=True):
        steps.append(struct.pack("HBBI", IF_EQUAL, left, 0, number))
    steps += [struct.pack("HBBI", END, 0, 0, end) for end in (ALLOW, REFUSE)]
    code = ctypes.create_string_buffer(b"".join(steps))
    program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
    library = ctypes.CDLL(None, use_errno=True)

    def limit() -> None:
        assert library.prctl(NO_NEW_PRIVS, 1, 0, 0, 0) == 0
        assert library.prctl(SET_SECCOMP, FILTER, program) == 0
        assert len(code) > 0  # the filter points into it

    return limit
