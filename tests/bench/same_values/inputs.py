"""Traces of other tools: the requests of a sample, written in each format that import reads."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.import_.octf import DISCARD, READ, WRITE, described, done, io

Row = dict[str, Any]
REQUESTS = 6000
FILETIME = 128_166_372_003_061_629
UNIX_S = 1_577_808_144
DAMAGED_EVERY = 500
LETTERS = {"read": "R", "write": "W"}
BIOSNOOP = "{end_s:<11.6f} {name:<14} {pid:<6} sda     {letter} {sector:<10} {length_bytes:<6}"


def read_rows(requests: Path) -> list[Row]:
    """Return the first reads and writes of a trace, with their response times in ns."""
    names = ["queue_ns", "complete_ns", "sector", "length_bytes", "operation", "process", "pid"]
    rows = pq.read_table(requests, columns=names).to_pylist()
    kept = [row for row in rows if row["operation"] in LETTERS and row["length_bytes"]][:REQUESTS]
    for row in kept:
        row["response_ns"] = max((row["complete_ns"] or row["queue_ns"]) - row["queue_ns"], 1000)
        row["letter"] = LETTERS[row["operation"]]
        row["offset"] = row["sector"] * 512
        row["sectors"] = row["length_bytes"] // 512
        row["us"] = row["queue_ns"] // 1000
        row["s"] = row["queue_ns"] / 1e9
        row["name"] = (row["process"] or "none").replace(" ", "_")
        row.update(fields(row))
    return kept


# Of each format the head, and the line of a request; `fields` has what is not in the row.
LINES: dict[str, tuple[str, str]] = {
    "blkreplay": (
        "start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n",
        "{s:18.9f} ; {sector:10} ; {sectors:5} ; {letter} ; 0.0 ; 0",  # delays are not read
    ),
    "msr": ("", "{filetime},src1,{unit},{word},{offset},{length_bytes},{response_ticks}"),
    "spc": ("", "{unit},{sector},{length_bytes},{lower},{s:.6f}"),
    "alibaba": ("", "{alibaba_volume},{letter},{offset},{length_bytes},{unix_us}"),
    "tencent": ("", "{unix_s},{sector},{sectors},{is_write},{tencent_volume}"),
    "systor": (
        "Timestamp,Response,IOType,LUN,Offset,Size\n",
        "{unix_s}.{part_ns:09},{response_s:.9f},{letter},5,{offset},{length_bytes}",
    ),
    "fiu": ("", "{fiu_ns} {pid} {name} {sector} {sectors} {letter} 6 0 {sector:032x}"),
    "mqsim": ("", "{queue_ns} {unit} {sector} {sectors} {is_read}"),
    "disksim": ("", "{ms:.6f} 1 {sector} {sectors} {is_read}"),
    "arc": ("", "{block} {blocks} 0 {request_number}"),  # without times
    "biosnoop": (  # prints completions
        "TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)\n",
        f"{BIOSNOOP} {{response_ms:7.2f}}",
    ),
    "biosnoop_queue": (
        "TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  QUE(ms) LAT(ms)\n",
        f"{BIOSNOOP}   0.250 {{response_ms:7.2f}}",
    ),
    "fio2": (
        "fio version 2 iolog\n/dev/sdb add\n/dev/sdb open\n",
        "/dev/sdb wait {whole_ms} 0\n/dev/sdb {operation} {offset} {length_bytes}",
    ),
    "columns": ("", "x;{us};{letter};{sectors};{sector};{response_ns}"),
    "dated": ("", "419,{letter},{offset},{length_bytes},{date}"),
    "worded": ("# made by a script\n", "at {us}: {operation} {sectors}@{sector}"),
}


def fields(row: Row) -> Row:
    """Return what lines have beside what is in the row: units, times and sizes of each format."""
    seconds, part_ns = divmod(row["queue_ns"], 10**9)
    minutes, second = divmod(seconds, 60)
    unit, is_read = row["pid"] % 3, row["letter"] == "R"
    volumes = {"unit": unit, "alibaba_volume": 419 + unit, "tencent_volume": 1063 + unit}
    words = {"word": row["operation"].capitalize(), "lower": row["letter"].lower()}
    words |= {"is_read": int(is_read), "is_write": int(not is_read)}
    blocks = {"block": row["sector"] // 8, "blocks": max(row["sectors"] // 8, 1)}
    times = {"filetime": FILETIME + row["queue_ns"] // 100, "fiu_ns": 89_966_104 + row["queue_ns"]}
    times |= {"unix_s": UNIX_S + seconds, "unix_us": UNIX_S * 1_000_000 + row["us"]}
    times |= {"part_ns": part_ns, "ms": row["queue_ns"] / 1e6, "whole_ms": row["us"] // 1000}
    times |= {"end_s": (row["queue_ns"] + row["response_ns"]) / 1e9}
    responses = {"response_s": row["response_ns"] / 1e9, "response_ms": row["response_ns"] / 1e6}
    responses |= {"response_ticks": row["response_ns"] // 100}
    date = f"2024-02-29 23:{58 + minutes:02}:{second:02}.{part_ns // 1000:06}"
    return {**volumes, **words, **blocks, **times, **responses, "date": date}


def write_inputs(rows: list[Row], folder: Path) -> None:
    """Write a trace of each format, one with wrong lines and one out of order."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, row in enumerate(rows):
        row["request_number"] = number
    for name, (head, line) in LINES.items():
        kept = [row for row in rows if row["queue_ns"] < 60 * 10**9] if name == "dated" else rows
        (folder / name).write_text(head + "".join(f"{line.format_map(row)}\n" for row in kept))
    texts = [LINES["alibaba"][1].format_map(row) for row in rows]
    for place in range(0, len(texts), DAMAGED_EVERY):
        texts[place + 7] = "what is this"
    (folder / "damaged").write_text("\n".join(texts))
    random.Random(3).shuffle(rows := list(rows))  # noqa: S311 - a fixed order, no secret
    texts = [LINES["msr"][1].format_map(row) for row in rows]
    (folder / "shuffled").write_text("".join(f"{text}\n" for text in texts))
    rows.sort(key=lambda row: int(row["request_number"]))
    for name, records in (("vscsi1", vscsi1), ("vscsi2", vscsi2), ("oracle", oracle)):
        (folder / name).write_bytes(b"".join(records(rows)))
    (folder / "octf").write_bytes(b"".join(octf(rows)))
    (folder / "strace.txt").write_text("".join(strace_lines()))


def vscsi1(rows: Iterable[Row]) -> Iterator[bytes]:
    """Yield records of version 1."""
    for number, row in enumerate(rows):
        op = 0x28 if row["letter"] == "R" else 0x2A
        size, time = row["length_bytes"], 1000 + row["us"]
        yield struct.pack("<IIIHHQQ", number, size, 1, op, 1 << 8, row["sector"], time)


def vscsi2(rows: Iterable[Row]) -> Iterator[bytes]:
    """Yield records of version 2, which have response times."""
    for number, row in enumerate(rows):
        op = 0x28 if row["letter"] == "R" else 0x2A
        size, time, took_us = row["length_bytes"], 1000 + row["us"], row["response_ns"] // 1000
        yield struct.pack("<HHIIIQQQ", op, 2 << 8, number, size, 1, row["sector"], time, took_us)


def oracle(rows: list[Row]) -> Iterator[bytes]:
    """Yield records of oracleGeneral with the number of the next access of the same sector."""
    following: dict[int, int] = {}
    found = []
    for number in reversed(range(len(rows))):
        row = rows[number]
        ahead = following.get(row["sector"], -1)
        time = row["queue_ns"] // 10**9
        found.append(struct.pack("<IQIq", time, row["sector"], row["length_bytes"], ahead))
        following[row["sector"]] = number
    yield from reversed(found)


def octf(rows: Iterable[Row]) -> Iterator[bytes]:
    """Yield messages of OCTF in order of time, every 50th request a discard."""
    events: list[tuple[int, int, bool, Row]] = []
    for number, row in enumerate(rows):
        events.append((row["queue_ns"], number, False, row))
        events.append((row["queue_ns"] + row["response_ns"], number, True, row))
    events.sort(key=lambda event: event[:3])
    yield described(1, 1, device=1, name="sda", sectors=1 << 30)
    for sid, (time, number, is_end, row) in enumerate(events, start=2):
        op = READ if row["letter"] == "R" else WRITE
        op = DISCARD if number % 50 == 7 else op
        place = {"number": number + 1, "lba": row["sector"], "sectors": row["sectors"]}
        yield done(time + 2, sid, **place) if is_end else io(time + 2, sid, op=op, **place)


def strace_lines() -> Iterator[str]:
    """Yield what strace prints of three threads on nine files, by a seed.

    BELOW stands for the folder of the files.
    """
    chance = random.Random(11)  # noqa: S311 - a fixed sequence, no secret
    calls: list[tuple[int, str]] = []
    calls.append((100, "clone(child_stack=NULL, flags=0x1200011, child_tidptr=0x7f) = 101 <0.0>"))
    thread = "clone3({flags=0x3d0f00, child_tid=0x7f} => {parent_tid=[102]}, 88) = 102 <0.0>"
    calls.append((100, thread))
    for turn in range(400):
        calls += [(tid, call) for tid in (100, 101) for call in _session(chance, tid, turn)]
        if turn % 7 == 0:
            calls += [(102, call) for call in _names(turn)]
    calls += [(tid, "+++ exited with 0 +++") for tid in (102, 101, 100)]
    for place, (tid, call) in enumerate(calls):
        yield f"{tid} 1800000000.{place * 20_000:09} {call.replace('<0.0>', '<0.000001500>')}\n"


def _session(chance: random.Random, tid: int, turn: int) -> Iterator[str]:
    """Yield a file opened, used and closed."""
    path = f"BELOW/d{tid}/f{turn % 9}"
    file = f"{3 + tid % 2}<{path}>"
    flags = chance.choice((0o102, 0o1102, 0o2102, 0o2))
    yield f'openat(-100<BELOW>, "{path}", {flags:#x}, 0644) = {file} <0.0>'
    for _ in range(chance.randrange(1, 6)):
        count = chance.randrange(1, 9000)
        yield chance.choice(
            (
                f'write({file}, ""..., {count}) = {count} <0.0>',
                f'read({file}, ""..., {count}) = {count // 2} <0.0>',
                f'pwrite64({file}, ""..., {count}, {count * 3}) = {count} <0.0>',
                f'pread64({file}, ""..., {count}, {count}) = 0 <0.0>',
                f"lseek({file}, {count}, 0x0) = {count} <0.0>",
                f"fsync({file}) = 0 <0.0>",
                f"ftruncate({file}, {count}) = 0 <0.0>",
            )
        )
    yield f"close({file}) = 0 <0.0>"


def _names(turn: int) -> Iterator[str]:
    """Yield calls that make, rename and remove names."""
    yield f'mkdir("BELOW/m{turn}", 0755) = 0 <0.0>'
    yield f'rename("BELOW/d100/f{turn % 9}", "BELOW/m{turn}/g") = 0 <0.0>'
    yield f'link("BELOW/m{turn}/g", "BELOW/d100/f{turn % 9}") = 0 <0.0>'
    yield f'unlink("BELOW/m{turn}/g") = 0 <0.0>'
    yield f'newfstatat(-100<BELOW>, "none{turn}", 0x7ffc, 0) = -1 ENOENT (No such file) <0.0>'
    yield f'rmdir("BELOW/m{turn}") = 0 <0.0>'
