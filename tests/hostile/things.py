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
}
