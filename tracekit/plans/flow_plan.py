"""The flow of a file plan (`replayer/INTERFACE.md`): what threads do again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tracekit.plans import Records, layout
from tracekit.plans.file_plan import CODES

Table = npt.NDArray[np.uint64]
TABLE_VALUES = 16384
MOST_FDS = 128
NONE = 0xFFFFFFFF
SYNC = CODES["sync"]
OPERATION_OF = {
    "openfile": CODES["open"],
    "createfile": CODES["create"],
    "closefile": CODES["close"],
    "read": CODES["read"],
    "write": CODES["write"],
    "readwholefile": CODES["read"],
    "writewholefile": CODES["write"],
    "appendfile": CODES["write"],
    "appendfilerand": CODES["write"],
    "deletefile": CODES["unlink"],
    "statfile": CODES["stat"],
    "fsync": CODES["fsync"],
    "fsyncset": CODES["fsync"],
    "makedir": CODES["mkdir"],
    "removedir": CODES["rmdir"],
    "listdir": CODES["readdir"],
    "delay": SYNC,
    "hog": SYNC,
    "eventlimit": SYNC,
    "iopslimit": SYNC,
    "opslimit": SYNC,
    "bwlimit": SYNC,
    "finishoncount": SYNC,
    "finishonbytes": SYNC,
    "semblock": SYNC,
    "sempost": SYNC,
    "block": SYNC,
    "wakeup": SYNC,
    "loop": SYNC,
    "loop end": SYNC,
    "template": CODES["open"],
    "aiowrite": CODES["write"],
    "aiowait": SYNC,
    "aio writer": CODES["write"],
}
"""What an operation of a flow does, by filebench's names, in the order of their codes."""
KINDS = tuple(OPERATION_OF)
RANDOM, ROTATES, INDEXED, BLOCKING, SPARES_OPEN, NO_READAHEAD = (1 << bit for bit in range(6))
ENDS = ("timeout", "firstdone", "alldone")

OP = layout(
    "u8 size, u4 size_table, u4 reserved_1, u8 iters, u4 iters_table, u4 reserved_2,"
    " u8 value, u4 value_table, u4 reserved_3, u8 index, u4 index_table, u4 reserved_4,"
    " u8 working_set_bytes, u8 highwater, u4 set, u4 fd, u4 source_fd, u4 link, u4 other,"
    " u2 flags, u1 kind, V25 reserved"
)
SET = layout("u8 first, u4 count, u4 reserved")
HEADER = layout(
    "u4 set_count, u4 table_count, u8 member_count, u8 seed, u4 events_per_second, u4 end, u4 fds,"
    " u4 writers, V24 reserved"
)


def new_ops(count: int) -> Records:
    """Return `count` operations that are done once, and name nothing."""
    ops = np.zeros(count, OP)
    ops["iters"] = 1
    for name in ("size_table", "iters_table", "value_table", "index_table", "set", "link", "other"):
        ops[name] = NONE
    return ops


@dataclass
class FlowParts:
    """What a flow has beside the operations of its threads; numbers are those of the lists."""

    seed: int
    events_per_second: int
    end: str
    fds: int
    writers: int = 0
    """Threads at the end of the plan that perform the asynchronous writes of others."""
    sets: list[Sequence[int]] = field(default_factory=list)
    """The plan's numbers of the files of each."""
    tables: list[Table] = field(default_factory=list)


def flow_bytes(parts: FlowParts, ops: Records) -> bytes:
    """Return the flow as in the file; `ops` are one a record of the plan."""
    sets = np.zeros(len(parts.sets), SET)
    sets["count"] = [len(members) for members in parts.sets]
    sets["first"] = np.cumsum(sets["count"]) - sets["count"]
    header = np.zeros((), HEADER)
    header["set_count"], header["table_count"] = len(sets), len(parts.tables)
    header["member_count"] = int(sets["count"].sum())
    header["seed"], header["events_per_second"] = parts.seed, parts.events_per_second
    header["end"], header["fds"] = ENDS.index(parts.end), parts.fds
    header["writers"] = parts.writers
    members = b"".join(np.asarray(some, "<u4").tobytes() for some in parts.sets)
    tables = b"".join(np.asarray(table, "<u8").tobytes() for table in parts.tables)
    content = b"".join([header.tobytes(), ops.tobytes(), sets.tobytes(), tables, members])
    return content + bytes(-len(content) % 8)
