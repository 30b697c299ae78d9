"""`trace.json` and the results beside the tables: what they hold, checked on reading."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import pyarrow as pa
from msgspec import UNSET, UnsetType

from tracekit import tables
from tracekit.arrow import open_table, read_batches
from tracekit.errors import InputError, first_line
from tracekit.safe_open import check_depth, read_regular
from tracekit.tables import LATER_COLUMNS, REQUESTS, SCHEMA_VERSION
from tracekit.version import __version__

LARGEST = (1 << 63) - 1
"""What a column can hold, so that any number of the folder fits."""

_READ_BY_STAGES = (
    *("requests", "blocks", "working_set", "volumes", "intervals", "file_operations", "files"),
    "placement",
    *("verification", "comparison", "fidelity", "fidelity_curve", "memory_accesses"),
)
TABLES = {table.place: table.columns for table in tables.TABLES if table.name in _READ_BY_STAGES}
"""The tables that one stage reads of another, by their place in the trace folder."""

Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
Kind = TypeVar("Kind")


class Record(msgspec.Struct, kw_only=True):
    """A part of a JSON file of the folder; what is UNSET is not written.

    A key that is not there when it is read is no error: what it would say is unknown.
    """


class SourceFile(Record):
    """A file that the trace was read from."""

    name: str
    bytes: int
    sha256: str


class Source(Record):
    """What the trace was read from."""

    format: str | None = None
    kernel: str | None = None
    """Release of the kernel that was traced."""
    files: list[SourceFile] = []


class Clock(Record):
    """Times of the trace; they count from its first event."""

    base_ns: int | None = None
    """Time of the first event as the source has it."""
    wall_ns: Count | None = None
    """Unix time of the first event."""
    duration_ns: Count = 0


class Device(Record):
    """A traced device; None is not known."""

    device: str
    major: Count | None = None
    minor: Count | None = None
    size_sectors: Count | None = None
    logical_sector_bytes: Count | None = None
    rotational: bool | None = None


UNORDERED = "blocks in an order that is not known"
"""What the evidence says of regions with blocks of several roles, in files of all versions."""


class Region(Record):
    """A part of a device with a role, such as a partition; sectors of 512 bytes."""

    device: str
    start_sector: Count
    sectors: Count
    partition: str | None = None
    name: str | None = None
    role: str | None = None
    filesystem: str | None = None
    mount: str | None = None
    node: str | UnsetType = UNSET
    """Of the kernel, such as dm-0, where the name is the device mapper's."""
    swap_file: str | UnsetType = UNSET
    """The path, where it is a piece of one."""
    is_unordered: bool | UnsetType = UNSET
    """Blocks of other roles may lie among these, as in a cache."""
    evidence: str | None = None
    uuid: str | UnsetType | None = UNSET
    """Of the file system."""
    confidence: str | UnsetType = UNSET
    found_by: str | UnsetType = UNSET
    given_role: str | UnsetType | None = UNSET
    """What the capture said, where `classify` decided otherwise."""
    given_evidence: str | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        """Set `is_unordered` where only the evidence says it, as in files of versions before."""
        if self.is_unordered is UNSET and UNORDERED in f"{self.evidence} {self.given_evidence}":
            self.is_unordered = True

    @property
    def title(self) -> str:
        """The name that people know, else the numbers of its device."""
        return str(self.name or self.partition)


class MissingOfDisk(Record):
    """Completions of one kind that the kernel counted on a disk and the trace has or has not."""

    device: str
    kind: str
    counted: int
    recorded: int
    at_least: Count
    at_most: Count


class MissingCompletions(Record):
    """Completions that are missing in the trace, by the kernel's own counters."""

    at_least: Count
    at_most: Count
    disks: list[MissingOfDisk] = []
    not_measured: list[dict[str, str]] = []


class Loss(Record):
    """What of the recorded events is lost or without its partner."""

    has_sequence_numbers: bool | UnsetType = UNSET
    sequence_gaps: Count = 0
    lost_records: Count = 0
    repeated_records: Count | UnsetType = UNSET
    reordered_records: Count | UnsetType = UNSET
    dropped: Count = 0
    window_full: Count | UnsetType = UNSET
    unmatched: dict[str, int] | UnsetType = UNSET
    unseen: MissingCompletions | UnsetType | None = UNSET
    bad_lines: Count | UnsetType = UNSET
    orphan_ends: Count | UnsetType = UNSET
    unfinished: Count | UnsetType = UNSET
    abandoned: Count | UnsetType = UNSET
    backwards: Count | UnsetType = UNSET
    forced: Count | UnsetType = UNSET
    is_counted: bool | UnsetType = UNSET
    """False: a recording was cut, and more is lost than `dropped`, nobody knows how much."""


class Completeness(Record):
    """Which parts of a whole trace of a disk there are."""

    columns: dict[str, int]
    """How many requests have each of the columns."""
    absent_actions: list[str] | UnsetType = UNSET
    absent_cpus: list[int] | UnsetType = UNSET
    """Without an event, though later ones have some, or the text says that there are so many."""


class Inference(Record):
    """Something that was concluded, with its evidence."""

    what: str
    evidence: str
    value: Any = None
    stage: str | UnsetType = UNSET


class TraceWarning(Record):
    """A doubt about the trace: `code` is one of ADVICE, `stage` the one that warns."""

    code: str
    message: str = ""
    advice: str = ""
    stage: str | UnsetType = UNSET


class MemoryTrace(Record):
    """What a trace of memory accesses has."""

    is_sampled: bool = False
    """Some of the accesses only."""
    is_filtered: bool = False
    """Only those that caches let through."""
    instructions: Count | None = None
    """That were executed; None is not known."""


class TraceInfo(Record):
    """The content of trace.json."""

    schema: int = SCHEMA_VERSION
    tool: dict[str, str] = msgspec.field(default_factory=lambda: {"tracekit": __version__})
    source: Source = msgspec.field(default_factory=Source)
    clock: Clock = msgspec.field(default_factory=Clock)
    devices: list[Device] = []
    layout: list[Region] = []
    counts: Mapping[str, Count | Mapping[str, Count] | list[dict[str, Any]]] = {}
    """Rows of the tables and what was read: `requests` and `records` of every block trace."""
    loss: Loss = msgspec.field(default_factory=Loss)
    completeness: Completeness | UnsetType = UNSET
    unknown: list[str] | UnsetType = UNSET
    """What the format of an imported trace does not say: times, operations, page size."""
    inferences: list[Inference] = []
    warnings: list[TraceWarning] = []
    memory: MemoryTrace | UnsetType = UNSET
    """Of a trace of memory accesses."""
    made_by: str | UnsetType = UNSET
    """The command that made the folder."""
    asked: list[str] | UnsetType = UNSET
    """The options of that command."""
    profile: dict[str, Any] | UnsetType = UNSET
    capture: dict[str, Any] | UnsetType = UNSET
    classification: dict[str, Any] | UnsetType = UNSET
    own_layout: list[Region] | UnsetType | None = UNSET
    """What `layout` was before `classify --layout` gave another one; None: it is back."""
    hotness: dict[str, Any] | UnsetType = UNSET

    def count(self, name: str) -> int:
        """Return a number of `counts`, 0 where it is not there."""
        found = self.counts.get(name)
        return found if isinstance(found, int) else 0


STEP = re.compile(r"\[(\d+)\]|\.(\w+)")
MISSING = re.compile(r"Object missing required field `(?P<key>\w+)`")
PLACE = re.compile(r" - at `\$(?P<path>.*)`$")


def validate(content: Any, kind: type[Kind], *, file: Path | str, hint: str) -> Kind:
    """Return JSON content as `kind`; raise InputError that names the first wrong value."""
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        found = PLACE.search(str(error))
        missing = MISSING.match(str(error))
        value, names = content, list[str]()
        for number, key in STEP.findall(found["path"] if found else ""):
            value = value[int(number)] if number else value.get(key)
            names.append(f"entry {number}" if number else key)
        shown = repr(value) if len(repr(value)) <= 60 else f"{value!r:.60}..."
        what = f"{names.pop() if names else 'the content'} cannot be {shown}"
        if missing:
            names, what = [*names, *what.split(" cannot be ")[:1]], f"{missing['key']} is missing"
        place = f"{file}: {', '.join(names)}" if names else f"{file}"
        raise InputError(f"{place}: {what}", hint=hint) from None


def read_object(file: Path, *, hint: str) -> dict[str, Any]:
    """Return the JSON object in a regular file; raise InputError if there is none."""
    try:
        text = read_regular(file)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}", hint=hint) from None
    return parse_object(text, file, hint=hint)


def parse_object(text: bytes, file: Path | str, *, hint: str) -> dict[str, Any]:
    """Return the JSON object that is the content of a file; raise InputError if it is none.

    Numbers that are not finite and halves of surrogate pairs are rejected: no later file could hold
    them; and a key that an object has twice, of which each reader takes another one.
    """
    try:
        content = json.loads(
            text.decode(),
            parse_constant=_reject,
            parse_float=_finite,
            object_pairs_hook=_with_each_key_once,
        )
        check_depth(content)
        json.dumps(content, ensure_ascii=False).encode()
    except RecursionError:
        raise InputError(f"{file}: JSON nested too deeply", hint=hint) from None
    except UnicodeError as error:
        raise InputError(f"{file}: not UTF-8 text: {error}", hint=hint) from None
    except ValueError as error:
        raise InputError(f"{file}: not valid JSON: {error}", hint=hint) from None
    if not isinstance(content, dict):
        raise InputError(f"{file}: JSON, but no object in braces", hint=hint)
    return content


def _with_each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(k for k in keys if keys.count(k) > 1)!r} comes twice")
    return made


def _reject(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large")
    return value


def check_table(file: Path, schema: pa.Schema, *, hint: str, may_have_nulls: bool = False) -> None:
    """Raise InputError unless the file is a Parquet table with the columns of the schema.

    Reads the footer only: names, types, and that columns without nulls have none.
    """
    needed = [name for name in schema.names if name not in LATER_COLUMNS]
    with open_table(file, needed, hint=hint) as table:
        stored = table.schema_arrow
        for field in (one for one in schema if one.name in stored.names):
            found = stored.field(field.name)
            if found.type != field.type:
                message = f"{file}: column {field.name} is {found.type}, not {field.type}"
                raise InputError(message, hint=hint)
            is_full = may_have_nulls or field.nullable or not found.nullable
            if not is_full and _has_nulls(table, field.name):
                raise InputError(f"{file}: column {field.name} has nulls", hint=hint)


def read_requests(file: Path) -> Iterator[Any]:
    """Yield the batches of a table of requests with all columns that this version has."""
    with open_table(file) as table:
        absent = LATER_COLUMNS - {*table.schema_arrow.names}
    for batch in read_batches(file, [name for name in REQUESTS.names if name not in absent]):
        columns = [
            pa.nulls(len(batch), field.type) if field.name in absent else batch.column(field.name)
            for field in REQUESTS
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=REQUESTS)


def has_values(file: Path, name: str) -> bool:
    """Say whether a column of a table is there and not null throughout."""
    with open_table(file) as table:
        if name not in table.schema_arrow.names:
            return False
    # Texts have no statistics.
    return any(batch.column(0).null_count < len(batch) for batch in read_batches(file, [name]))


def _has_nulls(table: Any, name: str) -> bool:
    """Say whether a column has nulls by the statistics; without any nothing is known."""
    position = table.schema_arrow.names.index(name)
    groups = (table.metadata.row_group(group) for group in range(table.metadata.num_row_groups))
    known = (group.column(position).statistics for group in groups)
    return any(found is not None and found.null_count for found in known)


def impossible_values(what: str, error: Exception) -> InputError:
    """Return the error for damaged pages and for numbers that no trace has, such as sector 2^63."""
    return InputError(
        f"{what} cannot be worked out from this trace's tables: {first_line(error)}",
        hint="they are damaged or of a damaged capture: parse it again, and check the warnings",
    )


STAGE = "parse"

ADVICE = {
    "ended_early": "take counts for those of a part of the time",
    "absent_files": "give these, too: what is in them is missing; of a capture, a CPU that was"
    " offline has none",
    "absent_cpus": "nothing if these CPUs were idle; else give the text of all CPUs: the buffer of"
    " one (per_cpu/cpuN) has the events of that one only",
    "open_requests": "latencies are those of the rest: give the whole text, of all CPUs and steps",
    "long_gaps": "check that no file or part is missing: rates and idle times can be wrong",
    "unread_files": "give these, too, or their folder: their events are missing",
    "lost_records": "capture again with larger buffers: latencies and totals can be wrong",
    "absent_actions": "of what lies between them nothing is known: trace all actions (block:*,"
    " blktrace without -a)",
    "left_out_records": "give blkparse's whole text with its summary: in a part lost records"
    " cannot be seen",
    "no_sequence_numbers": "the source cannot tell lost records; trust the tracer's own loss count",
    "unmatched_events": "expected at both ends of a capture; many of them mean lost records",
    "unseen_completions": "these requests have no completion and no latency: capture with blktrace"
    " or tracefs-blk, of which none is unseen",
    "unseen_not_measured": "trust the tracer's own loss count",
    "window_full": "requests that never completed were given up; look for lost completions",
    "repeated_records": "check that no file was given twice and that all are of one capture",
    "reordered_records": "they were put in order of time: nothing, where they are written as they"
    " end; if a clock was set back there, cut the trace at that place",
    "salvaged": "capture or copy the file again if the rest matters",
    "unknown_actions": "the kernel is newer than this tracekit: these events were left out",
    "passthrough": "nothing: commands to the device are no block I/O and have no row",
    "refused_attempts": "nothing: all requests of the disk were taken, queue/nr_requests",
    "unplaced_commands": "their requests are missing: trace the kernel's block events, too",
    "other_layers": "import by them with --format ftrace (block events), nvme, ufs or scsi",
    "no_completions": "latency cannot be analysed: capture all actions, or import response times",
    "no_process_names": "capture with tracekit, which saves the names, or give --layout",
    "bad_lines": "trace.json shows the first of them; the rest was imported",
    "long_preamble": "if they are of another format, import both parts by themselves",
    "cut_start": "import the file before this one with it, or copy the file again",
    "open_end": "nothing if only the newline is missing; else copy the file again",
    "doubtful_units": "import again with the right --unit: sizes, places or rates can be wrong",
    "coarse_times": "trust no gap, rate or latency within a second",
    "unknown_values": "for what needs them import again with --rate, --op or --page",
    "assumed_values": "trust no duration, rate, size or answer that rests on them",
    "lone_places": "take these lines out if their places are wrong: they stretch the device",
    "lone_times": "take these lines out if their times are wrong: they stretch the trace",
    "repeated_parts": "if it is so, import the trace once: cut the others out of the file",
    "rounded_places": "check the unit of places",
    "doubtful_commas": "if it groups the digits of a larger number, write them without commas",
    "unused_options": "correct these options, or leave them out: they changed nothing",
    "earlier_roles": "give them again with --role to keep them",
    "given_layout": "classify again without --layout for the trace's own",
    "mounted_names": "freeze it first (fsfreeze), or unmount it, and classify again",
    "open_layout": "make one that has it, by tracekit layout, and classify with --layout",
    "contradicted_roles": "check that the layout belongs to this trace, and is of that time",
    "guessed_roles": "check them; set roles with tracekit classify --role NAME=ROLE or --layout",
    "unknown_roles": "set roles with tracekit classify --role NAME=ROLE, or give a --layout",
    "absent_devices": "check that the layout belongs to this trace",
    "crossing_requests": "check that the layout belongs to this trace",
    "impossible_requests": "check the capture for damage",
    "other_commands": "put the monitor between the processor and its caches",
    "sampled_accesses": "take shares of all samples only: of neighbours in time nothing is known",
    "traced_times": "take durations of short calls for upper bounds; think time is longer, too",
    "unseen_operations": "reads and writes by io_uring and libaio are not in the trace",
    "foreign_calls": "capture with --source strace, which follows programs of all kinds",
    "unnamed_descriptors": "their reads and writes are missing: capture with --source strace",
    "cloned_ranges": "take their rows for changes of metadata; a replay copies the bytes",
    "left_out_calls": "nothing if they are few: no file operation stands for them",
    "unknown_offsets": "capture from the start of the program, with --below its files",
    "unfinished_calls": "expected when threads end or the capture was ended early",
}

VALUE_WARNINGS = ("unknown_values", "assumed_values", "coarse_times")
"""Of values that an imported trace's format does not have, on which every answer rests."""


def warning(code: str, message: str, *, stage: str = STAGE) -> TraceWarning:
    """Return a warning; `code` is one of ADVICE, `stage` the one that warns."""
    return TraceWarning(code=code, message=message, advice=ADVICE[code], stage=stage)


def warnings_of(
    found: Iterable[tuple[str, object, str]], *, stage: str = STAGE
) -> list[TraceWarning]:
    """Return the warnings that apply, each given by its code, whether it applies, its message."""
    return [warning(code, message, stage=stage) for code, applies, message in found if applies]


def inferences_of(
    found: Iterable[tuple[str, Any, str]], *, stage: str | UnsetType = UNSET
) -> list[Inference]:
    """Return inferences, each given by what was concluded, its value and the evidence."""
    return [
        Inference(what=what, value=value, evidence=evidence, stage=stage)
        for what, value, evidence in found
    ]
