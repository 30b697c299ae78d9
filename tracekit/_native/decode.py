"""The decoder of block traces, `replayer/read/decode.h`: descriptors in, record batches out."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

from tracekit._native.library import (
    Owned,
    address,
    array,
    call,
    constant,
    enumerators,
    out,
    plain,
    struct,
    text_at,
)

# Letters of blkparse, in the order of `enum trace_action`; the first has no action.
ACTIONS = (
    *("", "Q", "M", "F", "G", "S", "R", "D", "C", "P", "U", "UT", "I", "X", "B", "A"),
    *("abort", "driver", "ZP", "ZU"),
)
NOTIFIES = enumerators("trace_notify", "NOTIFY_")[:-1]
LAYERS = enumerators("text_layer", "LAYER_")[:-1]
"""Of the kernel, whose events a text may have."""
UNMATCHED = enumerators("unmatched", "UNMATCHED_")[:-1]
COUNTED = enumerators("counted", "COUNTED_")[:-1]
"""What the kernel counts of a disk."""


class Problem(IntEnum):
    """Why a capture cannot be decoded; `enum problem_kind` has what the values of a place mean."""

    NONE = constant("PROBLEM_NONE")
    NOT_A_TRACE = constant("PROBLEM_NOT_A_TRACE")
    BAD_MAGIC = constant("PROBLEM_BAD_MAGIC")
    BAD_VERSION = constant("PROBLEM_BAD_VERSION")
    CUT_HEADER = constant("PROBLEM_CUT_HEADER")
    CUT_PAYLOAD = constant("PROBLEM_CUT_PAYLOAD")
    BACKWARDS = constant("PROBLEM_BACKWARDS")
    VERSIONS = constant("PROBLEM_VERSIONS")
    READ = constant("PROBLEM_READ")
    MEMORY = constant("PROBLEM_MEMORY")


class Text(IntEnum):
    """The texts of events that the decoder reads; `enum text_format`."""

    NONE = constant("TEXT_NONE")
    BLKPARSE = constant("TEXT_BLKPARSE")
    FORM = constant("TEXT_FORM")
    TRACER = constant("TEXT_TRACER")
    KERNEL = constant("TEXT_KERNEL")
    NVME = constant("TEXT_NVME")
    UFS = constant("TEXT_UFS")
    SCSI = constant("TEXT_SCSI")


class DecodeStats(SimpleNamespace):
    """What was read: the fields of `struct tk_decode_stats`, where each is explained."""


@dataclass(frozen=True)
class Place:
    """Where and why an input cannot be read on."""

    kind: IntEnum
    file: int
    """Index of the input."""
    offset: int
    value: int
    other: int = 0


def place_of(problem: dict[str, Any], kind: type[IntEnum]) -> Place:
    """Return the place that the fields of a structure tell, with a problem of this kind."""
    return Place(**problem | {"kind": kind(problem["kind"])})


class StoppedError(Exception):
    """A reader stopped; `place` says where. The caller knows the file's name."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.place = place


class DecodeError(StoppedError):
    """The decoder stopped, with a Problem."""


@dataclass(frozen=True)
class Completed:
    """Requests of a device that completed between two readings of its counters, by COUNTED."""

    certain: Counter[str] = field(default_factory=Counter)
    perhaps: Counter[str] = field(default_factory=Counter)
    """Completed while a reading was made, or were seen in part."""


def detect_text(head: bytes) -> Text:
    """Return which of the texts of events a file is by its first bytes."""
    return Text(call("tk_decode_detect_text", head, len(head)))


class Decoder(Owned):
    """Decodes open descriptors of one trace.

    With `keeps_whole`, an input that cannot be read on ends there, see `cut`.
    """

    kind = "tk_decode"
    made_by, freed_by = "open", "close"
    failure = "the trace cannot be decoded"

    def __init__(self, fds: Sequence[int], *, keeps_whole: bool = False) -> None:
        super().__init__(array("int32_t", fds), len(fds), keeps_whole)

    def name_process(self, pid: int, name: str) -> None:
        """Name a process that the trace itself may not name."""
        self._check(self._call("name_process", pid, name.encode()))

    def name_cgroup(self, number: int, name: str) -> None:
        """Name a control group by the kernel's id; others are called `#` and the id."""
        self._check(self._call("name_cgroup", number, name.encode(errors="replace")))

    def name_device(self, number: tuple[int, int], name: str) -> None:
        """Name the device of this major and minor; others are called `major,minor`."""
        self._check(self._call("name_device", *number, name.encode()))

    def set_text(
        self, text: Text, head: bytes, *, form: str | None = None, block_bytes: int = 512
    ) -> None:
        """Read the one input as text, of which `head` was taken from its descriptor already.

        With Text.NONE it has binary records.
        `block_bytes` are those of a logical block, in which drivers count. `form` is the format of
        `blkparse -f`; raise ValueError when it cannot be read by it.
        """
        shape = None if form is None else form.encode()
        status = self._call("set_text", 0, text, shape, block_bytes, head, len(head))
        if status == -errno.ENODATA:
            raise ValueError("it lacks one of %T, %a, %d, %S and %n or %N")
        if status == -errno.EINVAL:
            raise ValueError("it has a field that blkparse does not know, or is too long")
        self._check(status)

    def bad_lines(self) -> list[tuple[int, str]]:
        """Return number and beginning of the first wrong lines of the text."""
        found: list[tuple[int, str]] = []
        shown = out("char *")
        while number := self._call("bad_line", 0, len(found), shown):
            found.append((number, text_at(shown[0]).decode("utf-8", "replace")))
        return found

    def batches(self) -> Iterator[Any]:
        """Yield record batches of `requests` in queue order; raise DecodeError."""
        import pyarrow as pa

        stream = struct("ArrowArrayStream")
        self._check(self._call("stream", stream))
        reader = pa.RecordBatchReader._import_from_c(address(stream))
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            except (pa.ArrowException, OSError):
                raise DecodeError(place_of(self._read("problem", "problem"), Problem)) from None
            yield batch

    def devices(self) -> list[tuple[int, int]]:
        """Return major and minor of the devices that occurred, in order of appearance."""
        numbers = array("uint32_t", self._call("devices", None, 0))
        self._call("devices", numbers, len(numbers))
        return [(number >> 20, number & 0xFFFFF) for number in numbers]

    def device_names(self) -> list[str | None]:
        """Return what drivers call each of `devices`, None for one that they did not name."""
        shown, length = out("char *"), out("int64_t")
        found: list[str | None] = []
        for index in range(len(self.devices())):
            is_named = self._call("device_name", index, shown, length)
            name = text_at(shown[0], length[0]) if is_named else None
            found.append(name.decode("utf-8", "replace") if name else None)
        return found

    def cpus(self) -> list[int]:
        """Return the CPUs that have an event, in their order."""
        numbers = array("uint32_t", self._call("cpus", None, 0))
        self._call("cpus", numbers, len(numbers))
        return [int(number) for number in numbers]

    def watch(self, readings_ns: tuple[int, int, int, int]) -> None:
        """Have completions counted between two readings of the kernel's counters.

        Given are first and last possible time of either, by the clock of the records.
        """
        self._call("watch", array("int64_t", readings_ns))

    def completed(self) -> list[Completed]:
        """Return what completed between the readings, for each of `devices`."""
        found: list[Completed] = []
        both = [array("int64_t", len(COUNTED)) for _ in range(2)]
        while self._call("completed", len(found), *both):
            counts = (Counter(dict(zip(COUNTED, plain(one), strict=True))) for one in both)
            found.append(Completed(*counts))
        return found

    def stats(self) -> DecodeStats:
        """Return what was read so far."""
        return DecodeStats(**self._read("stats", "tk_decode_stats"))

    def cut(self, file: int) -> Place | None:
        """Return where input `file` was cut because it could not be read on."""
        problem = self._read("cut", "problem", file)
        return place_of(problem, Problem) if problem["kind"] else None
