"""What threads do with files again and again: sets of files, groups of threads, operations.

The semantics are filebench's (`docs/personalities.md`). A TOML personality and a `.f` file of
filebench both become this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tracekit.plans.flow_plan import KINDS, OPERATION_OF, SYNC
from tracekit.workload.random_values import RandomValue, Value

READS = ("read", "readwholefile")
WRITES = ("write", "writewholefile", "appendfile", "appendfilerand", "aiowrite")
MOVES_DATA = READS + WRITES
LIMITS = ("iopslimit", "opslimit", "bwlimit", "finishoncount", "finishonbytes")
WORDS = tuple(kind for kind in KINDS if kind not in ("loop", "loop end", "template", "aio writer"))
"""What an operation can be, by filebench's names."""


@dataclass(frozen=True)
class FileSet:
    """Files of one kind, which all threads use.

    `width` is the mean number of entries of a directory, drawn with `width_shape` of a gamma
    distribution; 0: all have it. `present_ratio` of the files are there before the run.
    """

    name: str
    count: int
    size: Value
    width: Value
    width_shape: float = 0
    present_ratio: float = 1
    leaf_directories: int = 0
    access: str = ""
    """All that files are opened for: read, write, or both when it is empty."""


@dataclass(frozen=True)
class Operation:
    """One operation of the flow, named as in filebench.

    `files` is the set it takes a file of; without one it goes by `fd`. Sizes are bytes of a call,
    0: the whole file in one.
    """

    kind: str
    label: str
    files: str | None = None
    fd: int = 0
    source_fd: int = 0
    size: Value = 0
    iters: Value = 1
    value: Value = 0
    index: Value | None = None
    working_set: int = 0
    highwater: int = 1
    target: str | None = None
    is_random: bool = False
    is_direct: bool = False
    is_sync: bool = False
    rotates: bool = False
    is_blocking: bool = False
    no_readahead: bool = False
    spares_open: bool = False
    """Delete: the next file that nobody has open, where filebench leaves an open one alone."""
    is_data_sync: bool = False
    """Of fsync: that it is fdatasync."""


@dataclass(frozen=True)
class Loop:
    """Operations that are done `iters` times one after the other."""

    iters: Value
    body: tuple[Operation | Loop, ...]


Flow = tuple[Operation | Loop, ...]


@dataclass(frozen=True)
class Group:
    """Threads that do the same."""

    name: str
    threads: int
    flow: Flow
    writers: int = 0
    """Of each thread: how many of its asynchronous writes can be under way at once."""


@dataclass(frozen=True)
class Personality:
    """A name, its file sets, and what each thread does again and again."""

    name: str
    about: str
    file_sets: tuple[FileSet, ...]
    groups: tuple[Group, ...]
    parameters: dict[str, int | float] = field(default_factory=dict)
    definition: str = ""
    """Digest of its files and operations, before parameters are put in."""
    end: str = "timeout"
    """What it means that a thread finds no file or is done: timeout, firstdone or alldone."""
    events_per_second: int = 0
    seconds: int | None = None
    """How long it runs, where it says so."""
    not_used: tuple[str, ...] = ()
    """What its file says that changes nothing here, in words."""

    @property
    def threads(self) -> int:
        """Return how many threads there are."""
        return sum(group.threads for group in self.groups)

    def file_set(self, name: str) -> FileSet:
        """Return the file set of that name, which must be there."""
        return next(one for one in self.file_sets if one.name == name)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the steps, each once, in the order of the flow."""
        flows = (operations(group.flow) for group in self.groups)
        return tuple(
            dict.fromkeys(one.label for flow in flows for one in flow if works_on_files(one.kind))
        )


def works_on_files(kind: str) -> bool:
    """Say whether an operation makes calls, and not only waits."""
    return OPERATION_OF[kind] != SYNC


def operations(flow: Flow) -> Iterator[Operation]:
    """Yield all operations, those of loops once."""
    for one in flow:
        if isinstance(one, Loop):
            yield from operations(one.body)
        else:
            yield one


def steps_of_a_turn(flow: Flow) -> Counter[str]:
    """Return how often one turn does each step; numbers that are drawn count by their mean."""
    found: Counter[str] = Counter()
    for one in flow:
        times = mean_of(one.iters)
        if isinstance(one, Loop):
            for label, count in steps_of_a_turn(one.body).items():
                found[label] += times * count
        elif works_on_files(one.kind):
            found[one.label] += times
    return found


def mean_of(value: Value) -> int:
    """Return a number, or about the mean of one that is drawn."""
    return round(value.table(1024).mean()) if isinstance(value, RandomValue) else value
