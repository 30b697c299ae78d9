"""What somebody may do to a trace folder before they send it: changes drawn from a seed."""

import json
import os
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tracekit.plans import block_plan
from tracekit.replay import completions

OUTSIDE = "outside"
"""A folder beside the trace, with files by the names that tracekit reads, writes and removes."""
MARK = "what-a-file-outside-holds-7f3a"
HUGE_BYTES = 1 << 40
WORDS = (
    "../outside/made.img", "../../outside/made.img", "/etc/passwd", "..", ".", "", "/", "latest",
    "a/../../outside", "\x1b]0;x\x07", "=1+1", "x\ny", "x; touch pwned #", "<script>alert(1)",
    "\u202e", "a" * 5000, "'; select 1 --", "%s%n{0}", "nul\0", "\ud800",
)  # fmt: skip
NUMBERS = (
    0, -1, 1, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30, 1e308, -1e308, 5e-324, 0.5, True,
)  # fmt: skip
TEXTS_OF_JSON = ("", "{", "[]", "null", "[" * 100_000, '{"a":' * 50_000, "NaN", '{"schema": 1e999}')
PLANTED = (
    "findings/requests.parquet", "requests.json", "findings/x'y.parquet", "findings/a\nb.parquet",
    "findings/\x1b[31mred.parquet", "simulations/../x.parquet", "replays/x;y/summary.json",
    "replays/a\x1b]0;b/completions.parquet", "replays/..x/file_completions.parquet",
    "replays/b/unfinished.parquet", ".trace.json.tracekit-1-00000000", "device/.run.tracekit-1-00",
    "findings/" + "n" * 240 + ".parquet", "replays/latest.2/summary.json", "layout.json",
)  # fmt: skip
TYPES = (pa.string(), pa.float64(), pa.int8(), pa.binary(), pa.list_(pa.int64()))
Change = Callable[[Random, Path], str]


def files_of(folder: Path) -> list[Path]:
    """Return the files of a folder, in order; links and what is no file are left out."""
    found = sorted(folder.rglob("*"))
    return [path for path in found if stat.S_ISREG(path.lstat().st_mode)]


def chosen(rng: Random, folder: Path, *suffixes: str) -> Path:
    """Return one of the files with these suffixes, `trace.json` where there is none.

    Each stage is as likely as another, however many files it wrote.
    """
    found = [path for path in files_of(folder) if not suffixes or path.suffix in suffixes]
    stages: dict[str, list[Path]] = {}
    for path in found:
        stages.setdefault(path.relative_to(folder).parts[0], []).append(path)
    return rng.choice(rng.choice(list(stages.values()))) if found else folder / "trace.json"


def damage_bytes(rng: Random, folder: Path) -> str:
    """Flip, cut, clear, double or insert bytes anywhere; of Parquet mostly in the footer."""
    path = chosen(rng, folder)
    data = bytearray(path.read_bytes() if path.exists() else b"")
    begin = 0
    if path.suffix == ".parquet" and len(data) > 12 and rng.random() < 0.6:
        begin = max(len(data) - 8 - int.from_bytes(data[-8:-4], "little"), 0)
    at = rng.randrange(begin, len(data)) if begin < len(data) else 0
    kind = rng.choice(("flip", "flips", "cut", "clear", "double", "insert", "number"))
    if kind == "flip":
        data[at : at + 1] = bytes([rng.randrange(256)])
    elif kind == "flips":
        for _ in range(rng.randrange(2, 30)):
            place = rng.randrange(begin, max(len(data), begin + 1))
            data[place : place + 1] = bytes([rng.randrange(256)])
    elif kind == "cut":
        del data[at:]
    elif kind == "clear":
        data[at : at + 4096] = bytes(min(4096, len(data) - at))
    elif kind == "double":
        data[at:at] = data[at : at + 512]
    elif kind == "insert":
        data[at:at] = rng.randbytes(rng.randrange(1, 64))
    else:
        data[at : at + 8] = rng.choice((b"\xff" * 8, bytes(8), b"\x7f" + b"\xff" * 7))
    path.write_bytes(data)
    return f"{kind} of {path.relative_to(folder)} at {at}"


def change_json(rng: Random, folder: Path) -> str:
    """Change a value or key of a JSON file, or all of it."""
    path = chosen(rng, folder, ".json")
    name = path.relative_to(folder)
    if rng.random() < 0.1:
        text = rng.choice(TEXTS_OF_JSON)
        path.write_text(text)
        return f"{name} is {text[:20]!r}"
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return f"{name} is no JSON by now"
    said = [_change_value(rng, content) for _ in range(rng.choice((1, 1, 2, 5)))]
    path.write_text(json.dumps(content))
    return f"{name}: {'; '.join(said)}"


def _change_value(rng: Random, content: Any) -> str:
    """Walk down to a value at random and replace or remove it."""
    parent, place = content, []
    while True:
        keys = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
        if not keys:
            return "nothing to change"
        key = rng.choice(keys)
        place.append(key)
        child = parent[key]
        if not isinstance(child, dict | list) or not child or rng.random() < 0.15:
            break
        parent = child
    if rng.random() < 0.25:
        del parent[key]
        return f"without {place}"
    parent[key] = value = _hostile_value(rng, child)
    return f"{place} = {value!r:.60}"


def _hostile_value(rng: Random, before: Any) -> Any:
    kinds: list[Callable[[], Any]] = [
        lambda: rng.choice(WORDS),
        lambda: rng.choice(NUMBERS),
        lambda: None,
        lambda: rng.choice(([], {}, [[]], {"": {}}, [None], [before] * 3)),
        lambda: str(before),
    ]
    return rng.choice(kinds)()


def change_table(rng: Random, folder: Path) -> str:
    """Write a whole Parquet file with other columns, types, rows or values."""
    path = chosen(rng, folder, ".parquet")
    name = path.relative_to(folder)
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError):
        return f"{name} is no table by now"
    if not table.num_columns:
        return f"{name} has no columns"
    column = rng.randrange(table.num_columns)
    title = table.column_names[column]
    kind = rng.choice(("empty", "without", "extra", "type", "values", "values", "values", "nulls"))
    if kind == "empty":
        table = table.slice(0, 0)
    elif kind == "without":
        table = table.remove_column(column)
    elif kind == "extra":
        own = rng.choice(("", "x", title, '"; drop', "\x1b[31m", "=1+1", "e" * 300))
        table = table.append_column(own, pa.nulls(len(table), pa.int32()))
    elif kind == "type":
        other = rng.choice(TYPES)
        table = table.set_column(column, title, pa.nulls(len(table), other))
    elif kind == "nulls":
        nulls = pa.nulls(len(table), table.schema.field(column).type)
        table = table.set_column(column, pa.field(title, nulls.type, nullable=True), nulls)
    else:
        table = table.set_column(column, title, _hostile_column(rng, table.column(column)))
    metadata = None if rng.random() < 0.3 else _hostile_metadata(rng, table.schema.metadata)
    pq.write_table(table.replace_schema_metadata(metadata), path)
    return f"{name}: {kind} of {title}"


def _hostile_column(rng: Random, column: Any) -> Any:
    """Return the column with some values that no trace has."""
    kind = column.type
    values = column.to_pylist()
    own: tuple[Any, ...] = tuple(w for w in WORDS if w.isprintable() or "\x1b" in w)
    if pa.types.is_integer(kind):
        bits = kind.bit_width
        own = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0, -1, 1, 512)
        own = tuple(max(one, 0) for one in own) if not pa.types.is_signed_integer(kind) else own
    elif pa.types.is_floating(kind):
        own = (float("nan"), float("inf"), -float("inf"), -1.0, 0.0, 1e308)
    elif pa.types.is_boolean(kind):
        own = (True, False)
    elif not (pa.types.is_string(kind) or pa.types.is_dictionary(kind)):
        return column
    for _ in range(rng.choice((1, 3, len(values)))):
        if values:
            values[rng.randrange(len(values))] = rng.choice(own)
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


def _hostile_metadata(rng: Random, metadata: Any) -> dict[bytes, bytes]:
    found = dict(metadata or {})
    if found and rng.random() < 0.5:
        found[rng.choice(sorted(found))] = rng.choice((b"", b"{", b"[1]", b'{"a": 1}', b"\xff"))
    return found


def change_type(rng: Random, folder: Path) -> str:
    """Replace a file or folder by something that is no file, or by a link that leads outside."""
    found = [*files_of(folder), *sorted(p for p in folder.rglob("*") if p.is_dir())]
    path = rng.choice(found)
    name = path.relative_to(folder)
    is_folder = path.is_dir() and not path.is_symlink()
    kinds = ["fifo", "link", "link", "loop", "zero", "folder", "socket", "huge", "gone", "inside"]
    kind = rng.choice([*kinds, "device"] if os.geteuid() == 0 else kinds)
    _remove(path)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        own = "" if is_folder else rng.choice((path.name, "made.img"))
        target = rng.choice((os.path.relpath(folder.parent, path.parent), str(folder.parent)))
        path.symlink_to(Path(target, OUTSIDE, own))
    elif kind == "inside":
        path.symlink_to(os.path.relpath(chosen(rng, folder), path.parent))
    elif kind in ("loop", "zero"):
        path.symlink_to(path.name if kind == "loop" else "/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.relpath(path))
    elif kind == "huge":
        with path.open("wb") as out:
            out.truncate(HUGE_BYTES)
    elif kind == "device":
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, rng.choice((3, 5, 7))))
    return f"{name} is a {kind}"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def plant_name(rng: Random, folder: Path) -> str:
    """Add a copy of a file under a name that a command may take for something else."""
    name = rng.choice(PLANTED)
    path = folder / name
    source = chosen(rng, folder, path.suffix)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)
    except OSError as error:
        return f"{name!r} cannot be planted: {error.strerror}"
    return f"{name!r:.80} is a copy of {source.relative_to(folder)}"


def plant_state(rng: Random, folder: Path) -> str:
    """Add what an interrupted measurement or a killed replay leaves, as somebody else wrote it."""
    there = folder.parent / OUTSIDE
    if rng.random() < 0.4:
        made = (there / "made.img").stat()
        inode = [made.st_dev, made.st_ino]
        content = {
            "asked": {}, "made": {"path": str(there / "made.img"), "inode": inode},
            "is_made": True, "resumed": 0, "results": [],
        }  # fmt: skip
        (folder / "device").mkdir(exist_ok=True)
        (folder / "device/state.json").write_text(json.dumps(content))
        return "device/state.json names a file outside"
    if rng.random() < 0.3:
        return _plant_partial_run(rng, folder)
    replay = rng.choice(("latest", "rest"))
    left = folder / "replays" / f".{replay}.tracekit-1-{rng.randrange(9):08x}"
    left.mkdir(parents=True, exist_ok=True)
    if (folder / "replays/base/plan.bin").is_file():
        shutil.copyfile(folder / "replays/base/plan.bin", left / "plan.bin")
    own = rng.choice(("completions.bin", "results.bin", "completions.bin.7.part"))
    write_completions(left / own)
    records = rng.choice(
        ("../../../outside/completions.bin", "completions.bin", str(there), "../*")
    )
    note: dict[str, Any] = {
        "plan": "../../../outside/plan.bin", "records": records, "compiled": {}, "first": 0,
        "from_ns": 0, "is_timed": True,
    }  # fmt: skip
    if rng.random() < 0.5:
        _change_value(rng, note)
    data = json.dumps(note).encode() if rng.random() < 0.7 else bytes(4096)
    (left / "unfinished.json").write_bytes(data)
    return f"{left.name} holds {own} and names {records}"


def _plant_partial_run(rng: Random, folder: Path) -> str:
    """Add what can be gone on with: the plan, and how far it came."""
    kept, base = folder / "replays/rest.unfinished", folder / "replays/base"
    kept.mkdir(parents=True, exist_ok=True)
    compiled = {}
    if (base / "summary.json").is_file() and (base / "plan.bin").is_file():
        shutil.copyfile(base / "plan.bin", kept / "plan.bin")
        compiled = json.loads((base / "summary.json").read_text()).get("compiled", {})
    about = {"outcome": "unfinished", "error": "", "completions": 2, "next": 2}
    about |= {"compiled": compiled}
    said = _change_value(rng, about) if rng.random() < 0.7 else "whole"
    (kept / "unfinished.json").write_text(json.dumps(about))
    return f"rest.unfinished: {said}"


def write_completions(path: Path) -> None:
    """Write what the program leaves after two requests."""
    header = np.zeros(1, completions.HEADER)
    header["magic"], header["record_bytes"] = completions.MAGIC, completions.RECORD.itemsize
    rows = np.zeros(2, completions.RECORD)
    rows["request_id"] = (0, 1)
    path.write_bytes(header.tobytes() + rows.tobytes())


def change_plan(rng: Random, folder: Path) -> str:
    """Change a number in the header of a plan, or cut it."""
    path = chosen(rng, folder, ".bin")
    data = bytearray(path.read_bytes() if path.exists() else b"")
    names = block_plan.HEADER.names or ()
    at = block_plan.HEADER.fields[rng.choice(names)][1] if block_plan.HEADER.fields else 0
    data[at : at + 8] = rng.choice((b"\xff" * 8, bytes(8), rng.randbytes(8)))
    path.write_bytes(data)
    return f"{path.relative_to(folder)}: header at {at}"


def holds_mark(path: Path) -> bool:
    """Say whether a file, or one of a folder, holds what is in the files outside."""
    files = files_of(path) if path.is_dir() else [path] if path.is_file() else []
    small = (file for file in files if file.stat().st_blocks < 1 << 16)
    return any(
        MARK.encode() in file.read_bytes() for file in small if file.stat().st_size < 1 << 25
    )


CHANGES: tuple[tuple[int, Change], ...] = (
    (5, damage_bytes),
    (6, change_json),
    (5, change_table),
    (5, change_type),
    (3, plant_name),
    (3, plant_state),
    (1, change_plan),
)


def keep_few(rng: Random, folder: Path, count: int = 6) -> None:
    """Remove all results but a few, because a page of all takes many seconds to draw."""
    base = ("trace.json", "requests.parquet", "blocks.parquet", "working_set.parquet")
    results = [path for path in files_of(folder) if path.name not in base]
    whole = {path.parent / path.stem for path in rng.sample(results, min(count, len(results)))}
    replays = {path.parent for path in whole if path.parent.parent.name == "replays"}
    for path in results:
        # A table and the answer beside it have one name; a replay is a folder.
        if path.parent / path.stem not in whole and path.parent not in replays:
            path.unlink()


def change(rng: Random, folder: Path) -> list[str]:
    """Change a folder at random; return what was done."""
    weights, changes = zip(*CHANGES, strict=True)
    count = rng.choice((1, 1, 1, 2, 3))
    return [_tried(one, rng, folder) for one in rng.choices(changes, weights, k=count)]


def _tried(one: Change, rng: Random, folder: Path) -> str:
    """Change a folder; what an earlier change left may not allow it."""
    try:
        return one(rng, folder)
    except (AttributeError, OSError, ValueError) as error:
        return f"{one.__name__} failed: {error}"
