"""What a trace folder that somebody sent can have in the place of its files: a table of changes.

Each thing is made in a copy of a whole folder; `outside` is a folder beside it that must not
change. Links lead there, as a sender could make them lead anywhere.
"""

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.hostile.parquet import deep, miscounted, wide
from tests.traces import json_of

Thing = Callable[[Path, Path], object]
"""Makes the change: gets the trace folder, and the folder outside."""


def fifo(place: str) -> Thing:
    """Return the change that puts a pipe, which nobody writes to, in the place of a file."""
    return lambda folder, _: os.mkfifo(_free(folder / place))


def unix_socket(place: str) -> Thing:
    """Return the change that puts a socket in the place of a file."""

    def make(folder: Path, _: Path) -> None:
        (folder / place).unlink()
        with socket.socket(socket.AF_UNIX) as made:
            here = os.open(folder, os.O_PATH)
            made.bind(f"/proc/self/fd/{here}/{place}")
            os.close(here)

    return make


def link(place: str, target: str) -> Thing:
    """Return the change that puts a link to `target`, of outside or absolute, in a place."""
    return lambda folder, outside: _free(folder / place).symlink_to(outside / target)


def moved_out(place: str) -> Thing:
    """Return the change that moves a file or folder out and puts a link to it in its place."""

    def make(folder: Path, outside: Path) -> None:
        shutil.move(folder / place, outside / "moved")
        (folder / place).symlink_to(outside / "moved")

    return make


def folder_at(place: str) -> Thing:
    """Return the change that puts a folder in the place of a file."""
    return lambda folder, _: _free(folder / place).mkdir()


def text(place: str, content: str | bytes) -> Thing:
    """Return the change that puts a file of this content in a place."""
    data = content if isinstance(content, bytes) else content.encode()
    return lambda folder, _: _free(folder / place).write_bytes(data)


def sparse(place: str) -> Thing:
    """Return the change that puts a file of a TiB without content in a place."""

    def make(folder: Path, _: Path) -> None:
        with _free(folder / place).open("wb") as file:
            file.truncate(1 << 40)

    return make


def info(**changes: Any) -> Thing:
    """Return the change of keys of trace.json."""
    return keys("trace.json", **changes)


def keys(place: str, **changes: Any) -> Thing:
    """Return the change of keys of a JSON file."""

    def make(folder: Path, _: Path) -> None:
        (folder / place).write_text(json.dumps({**json_of(folder / place), **changes}))

    return make


def column(place: str, name: str, value: int) -> Thing:
    """Return the change of a column of a table to one number in every row."""

    def make(folder: Path, _: Path) -> None:
        found = pq.read_table(folder / place)
        at = found.schema.names.index(name)
        changed = found.set_column(at, found.schema.field(at), pa.array([value] * len(found)))
        pq.write_table(changed, folder / place)

    return make


def parameters(place: str, stored: str) -> Thing:
    """Return the change of what a finding says of the values that its query ran with."""

    def make(folder: Path, _: Path) -> None:
        found = pq.read_table(folder / place)
        pq.write_table(found.replace_schema_metadata({"parameters": stored}), folder / place)

    return make


def copied(source: str, place: str) -> Thing:
    """Return the change that puts a copy of a file in a place."""
    return lambda folder, _: shutil.copyfile(folder / source, _free(folder / place))


def raw(place: str, content: Callable[[], bytes]) -> Thing:
    """Return the change that puts the bytes of a Parquet file in a place."""
    return lambda folder, _: _free(folder / place).write_bytes(content())


def _free(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    return path


def number(digits: int) -> str:
    """Return a trace.json with a count of so many digits."""
    return '{"schema": 1, "counts": {"a": ' + "9" * digits + "}}"


def nested(levels: int) -> str:
    """Return a trace.json of which a free value is nested."""
    return '{"schema": 1, "capture": {"a": ' + "[" * levels + "]" * levels + "}}"


ALL = "sql figures classify analyze recommend endurance tiers replay compare export"
KERNELS = "classify recommend tiers replay export"  # what hands the numbers to native code
ANSWERS = "sql figures"
OF_TABLES = {
    "requests": ALL,
    "blocks": ALL,
    "working_set": "sql figures analyze compare",
    "findings/totals": "sql figures analyze endurance",
    "simulations/placement": "sql figures recommend endurance",
    "replays/file/completions": "sql figures compare",
}
OF_JSON = {
    "trace.json": ALL,
    "recommendation.json": "figures recommend endurance verify",
    "replays/file/summary.json": "figures compare resume",
    "simulations/tiers.json": "figures tiers",
}
OF_FOLDERS = {
    "findings": "sql figures analyze",
    "simulations": "sql figures recommend tiers",
    "replays": "sql figures compare played",
    "replays/file": "sql figures compare resume over",
    "device": "sql figures",
    "counters": "sql figures counters",
    "files": "sql figures",
}
PLACES = {**{f"{name}.parquet": commands for name, commands in OF_TABLES.items()}, **OF_JSON}


def each(column_type: Any, *places: str) -> Thing:
    """Return the change of all columns of tables to one type, with a value that says nothing."""

    def make(folder: Path, _: Path) -> None:
        for place in places:
            found = pq.read_table(folder / place)
            columns = [pa.array([None] * len(found), column_type) for _ in found.schema.names]
            pq.write_table(pa.table(columns, found.schema.names), folder / place)

    return make


NAMES = {"in capitals": "Requests", "like a view": "steps", "with a line break": "a\nb"}
NAMES |= {"with an escape": '\x1b[31m";', "without a name": ""}
THINGS: dict[str, tuple[Thing, str]] = {
    **{f"pipe {place}": (fifo(place), commands) for place, commands in PLACES.items()},
    **{f"link {place}": (moved_out(place), commands) for place, commands in PLACES.items()},
    **{f"link {place}": (moved_out(place), commands) for place, commands in OF_FOLDERS.items()},
    "pipe of a writer that was killed": (fifo(".trace.json.tracekit-1-00000000"), "sql classify"),
    "pipe in the place of a folder": (fifo("findings"), "sql figures analyze"),
    "socket": (unix_socket("requests.parquet"), ALL),
    "link to a device": (link("requests.parquet", "/dev/zero"), ALL),
    "link to nothing": (link("blocks.parquet", "nowhere"), "sql classify recommend"),
    "link in a circle": (
        lambda folder, _: _free(folder / "findings").symlink_to("findings"),
        "sql figures analyze",
    ),
    "folder": (folder_at("requests.parquet"), ALL),
    "folder of JSON": (folder_at("recommendation.json"), "figures recommend endurance"),
    "TiB of JSON": (sparse("recommendation.json"), "figures recommend endurance"),
    "TiB of a table": (sparse("blocks.parquet"), "sql recommend"),
    "JSON of 50 levels": (text("trace.json", nested(50)), "sql figures classify"),
    "JSON of 500 levels": (text("trace.json", nested(500)), ALL),
    "JSON of 100,000 levels": (text("trace.json", nested(100_000)), ALL),
    "answer of 500 levels": (text("recommendation.json", nested(500)), "figures endurance"),
    "number of 5000 digits": (text("trace.json", number(5000)), ALL),
    "UTF-16": (text("trace.json", '{"schema": 1}'.encode("utf-16")), ALL),
    "negative count": (info(counts={"requests": -5}), ALL),
    "words for counts": (info(counts={"requests": "many", "records": None}), ALL),
    "list for counts": (info(counts=["requests"]), ALL),
    "time beyond 64 bits": (info(clock={"base_ns": 1 << 90, "duration_ns": 5}), ANSWERS),
    "far year": (info(clock={"base_ns": 0, "wall_ns": (1 << 63) - 1}), "figures export"),
    "files that are none": (info(source={"files": [3]}), KERNELS),
    "loss that is none": (info(loss={"unmatched": {"queue": "x"}}), KERNELS),
    "profile that is none": (info(profile=3), KERNELS),
    "profile of other words": (info(profile={"name": [1], "seed": {}}), "figures"),
    "rules that are none": (
        info(classification={"a": [[]]}, hotness={"levels": 3}),
        "figures recommend",
    ),
    "answer of another form": (
        keys("recommendation.json", answers=[{"capacity_bytes": -1}]),
        "figures endurance",
    ),
    "summary of another form": (
        keys("replays/file/summary.json", plan={}, targets={"a": "b"}),
        "figures compare",
    ),
    "simulation of another form": (text("simulations/cache.json", "{}"), "figures"),
    "finding like a table": (
        copied("findings/totals.parquet", "findings/requests.parquet"),
        "sql figures",
    ),
    **{
        f"finding {what}": (copied("findings/totals.parquet", f"findings/{name}.parquet"), "sql")
        for what, name in NAMES.items()
    },
    "replay with an escape": (
        lambda folder, _: (folder / "replays/file").rename(folder / "replays/\x1b[2J\n;"),
        "sql figures compare",
    ),
    "replay without a summary": (
        lambda folder, _: (folder / "replays/file/summary.json").unlink(),
        "figures compare",
    ),
    "schema of 5000 levels": (raw("requests.parquet", lambda: deep(5000)), "sql recommend export"),
    "finding of 5000 levels": (raw("findings/totals.parquet", lambda: deep(5000)), "sql figures"),
    "schema of 20,000 columns": (raw("requests.parquet", lambda: wide(20_000)), "sql recommend"),
    "finding of 20,000 columns": (
        raw("findings/totals.parquet", lambda: wide(20_000)),
        "sql figures",
    ),
    "rows that are not there": (
        lambda folder, _: miscounted(folder / "blocks.parquet", 1 << 40),
        "sql recommend tiers",
    ),
    "table that is none": (
        text("blocks.parquet", b"PAR1" + b"\xff" * 60 + b"PAR1"),
        "sql recommend",
    ),
    "finding of words": (
        each(pa.string(), "findings/totals.parquet", "findings/mix.parquet"),
        "sql figures",
    ),
    "finding of lists": (each(pa.list_(pa.int8()), "findings/totals.parquet"), "sql figures"),
    "simulations of structs": (
        each(
            pa.struct({"a": pa.int8()}),
            "simulations/tiers.parquet",
            "simulations/cache_curve.parquet",
        ),
        "sql figures tiers",
    ),
    "placement of words": (
        each(pa.string(), "simulations/placement.parquet"),
        "sql figures endurance",
    ),
    "blocks beyond the device": (
        column("blocks.parquet", "block", (1 << 63) - 1),
        "recommend tiers endurance",
    ),
    "negative sectors": (column("requests.parquet", "sector", -(1 << 63)), KERNELS),
    "negative lengths": (column("requests.parquet", "length_bytes", -(1 << 62)), KERNELS),
    "late times": (column("requests.parquet", "queue_ns", (1 << 63) - 1), ALL),
    "early times": (column("requests.parquet", "queue_ns", -(1 << 63)), KERNELS),
    "early ends": (column("requests.parquet", "complete_ns", -(1 << 63)), KERNELS),
    "merged into nobody": (column("requests.parquet", "merged_into", 1 << 62), KERNELS),
    "one number for all": (column("requests.parquet", "request_id", 7), KERNELS),
    "parameters of another form": (parameters("findings/totals.parquet", "{"), "figures"),
}
