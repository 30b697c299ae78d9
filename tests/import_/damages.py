"""Traces damaged as files are in practice: what import makes of each.

`python -m tests.import_.damages` prints, by kind of damage, how many were read as before, refused,
changed with a warning, or changed in silence, and names each of the last. This module writes the
undamaged files itself, by each format's definition (`tracekit formats NAME`), or takes recorded
ones.
"""

import argparse
import gzip
import lzma
import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import parsed as traces
from tests.import_.examples import RECORDED
from tracekit.errors import TracekitError
from tracekit.readers.importing import import_trace
from tracekit.readers.units import ImportOptions
from tracekit.store import TraceFolder

REQUESTS = 2000
FILETIME_S = 11_644_473_600
EPOCH_S = 1_538_323_200
AS_BEFORE, REFUSED, TOLD, UNSEEN, SILENT = OUTCOMES = (
    *("as before", "refused", "told", "looks whole", "in silence"),
)
"""What looks whole has a request in each of its lines."""
EVENTS = ("blk", "ftrace", "perf")
"""Texts of events, which were recorded."""
Lines = list[bytes]


@dataclass(frozen=True)
class Request:
    """One of the trace that is damaged."""

    time_s: float
    is_read: bool
    sector: int
    sectors: int
    response_us: int

    @property
    def letter(self) -> str:
        """The operation, as most formats have it."""
        return "R" if self.is_read else "W"


@dataclass(frozen=True)
class Format:
    """How a request is written, by its definition, and the columns of place and length."""

    write: Callable[[Request], str]
    place: int
    length: int
    head: bytes = b""
    between: bytes = b","

    def is_request(self, line: bytes) -> bool:
        """Say whether a line has all columns, and numbers as place and length."""
        count = len(self.write(Request(1.0, True, 8, 8, 100)).encode().split(self.between))
        words = line.split(self.between)
        return len(words) >= count and words[self.place].isdigit() and words[self.length].isdigit()


FORMATS = {
    "msr": Format(
        lambda one: (
            f"{round((one.time_s + FILETIME_S + EPOCH_S) * 1e7)},src1,0,"
            f"{'Read' if one.is_read else 'Write'},{one.sector * 512},{one.sectors * 512},"
            f"{one.response_us * 10}"
        ),
        4, 5,
    ),
    "spc": Format(
        lambda one: f"0,{one.sector},{one.sectors * 512},{one.letter},{one.time_s:.6f}", 1, 2
    ),
    "alibaba": Format(
        lambda one: (
            f"419,{one.letter},{one.sector * 512},{one.sectors * 512},"
            f"{round((one.time_s + EPOCH_S) * 1e6)}"
        ),
        2, 3,
    ),
    "tencent": Format(
        lambda one: (
            f"{int(one.time_s) + EPOCH_S},{one.sector},{one.sectors},{int(not one.is_read)},1063"
        ),
        1, 2,
    ),
    "systor": Format(
        lambda one: (
            f"{one.time_s + EPOCH_S:.9f},{one.response_us / 1e6:.9f},{one.letter},5,"
            f"{one.sector * 512},{one.sectors * 512}"
        ),
        4, 5, head=b"Timestamp,Response,IOType,LUN,Offset,Size\n",
    ),
    "fiu": Format(
        lambda one: (
            f"{round(one.time_s * 1e9)} 4892 httpd {one.sector} {one.sectors} {one.letter} 6 0 "
            "531e779d3a44a5aa2c1d8d1a4d1c2b3e"
        ),
        3, 4, between=b" ",
    ),
    "mqsim": Format(
        lambda one: (
            f"{round(one.time_s * 1e9)} 0 {one.sector} {one.sectors} {int(one.is_read)}"
        ),
        2, 3, between=b" ",
    ),
    "disksim": Format(
        lambda one: f"{one.time_s * 1e3:.6f} 0 {one.sector} {one.sectors} {int(one.is_read)}",
        2, 3, between=b" ",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Text:
    """A trace that is not damaged, as lines with their ends; the first may be a header."""

    name: str
    lines: Lines

    def middle(self, chance: random.Random) -> int:
        """Choose a line in the middle half."""
        return chance.randrange(len(self.lines) // 4, 3 * len(self.lines) // 4)

    def replaced(self, at: int, many: int, instead: Lines) -> Lines:
        """Return the lines, with others instead of some."""
        return [*self.lines[:at], *instead, *self.lines[at + many :]]

    def changed(self, numbers: range, change: Callable[[list[bytes], Format], Lines]) -> Lines:
        """Return the lines, the words of some of them changed."""
        form, made = FORMATS[self.name], list(self.lines)
        for number in numbers:
            if number or not form.head:
                words = change(made[number].rstrip(b"\n").split(form.between), form)
                made[number] = form.between.join(words) + b"\n"
        return made

    @property
    def all(self) -> range:
        """The numbers of all lines."""
        return range(len(self.lines))


def made_requests() -> list[Request]:
    """Return runs and random places of a disk of 64 GiB, ten a second."""
    chance, requests = random.Random(1), list[Request]()  # noqa: S311 - a fixed sequence
    time_s, sector = 0.0, 0
    for _ in range(REQUESTS):
        time_s = round(time_s + chance.expovariate(10), 6)
        sector = sector if chance.random() < 0.4 else chance.randrange(1 << 24) * 8
        sectors, response_us = chance.choice((8, 8, 16, 32, 128)), chance.randrange(50, 900)
        requests.append(Request(time_s, chance.random() < 0.6, sector, sectors, response_us))
        sector += sectors
    return requests


def texts() -> Iterator[Text]:
    """Write a trace in each format."""
    requests = made_requests()
    for name, form in FORMATS.items():
        lines = [form.write(one).encode() + b"\n" for one in requests]
        yield Text(name, [form.head, *lines] if form.head else lines)
    for name in EVENTS:
        text = lzma.decompress((RECORDED / f"{name}.txt.xz").read_bytes())
        yield Text(name, text.splitlines(keepends=True))


def cut_end(text: Text, chance: random.Random) -> Lines:
    last = text.lines[-1].rstrip(b"\n")
    return [*text.lines[:-1], last[: chance.randrange(len(last) // 3, len(last) - 1)]]


def cut_start(text: Text, chance: random.Random) -> Lines:
    at = text.middle(chance)
    return [text.lines[at][len(text.lines[at]) // 2 :], *text.lines[at + 1 :]]


def hole(text: Text, chance: random.Random) -> Lines:
    at, many = text.middle(chance), chance.randrange(5, 100)
    before, behind = text.lines[at], text.lines[at + many]
    joined = before[: chance.randrange(4, len(before))] + behind[chance.randrange(len(behind)) :]
    return text.replaced(at, many + 1, [joined])


def zeros(text: Text, chance: random.Random) -> Lines:
    at, many = text.middle(chance), chance.randrange(5, 100)
    return text.replaced(at, many, [bytes(sum(map(len, text.lines[at : at + many])))])


def noise(text: Text, chance: random.Random) -> Lines:
    return text.replaced(text.middle(chance), 60, [chance.randbytes(4096)])


def block_doubled(text: Text, chance: random.Random) -> Lines:
    at, many = text.middle(chance), chance.randrange(50, 200)
    return text.replaced(at + many, 0, text.lines[at : at + many])


def parts_swapped(text: Text, chance: random.Random) -> Lines:
    at, first = text.middle(chance), int(text.name in FORMATS and bool(FORMATS[text.name].head))
    return [*text.lines[:first], *text.lines[at:], *text.lines[first:at]]


def other_format_behind(text: Text, chance: random.Random) -> Lines:
    other = b"2024-01-02T03:04:05Z host kernel: [%d.5] audit: type=1400 pid=%d comm=cron\n"
    half = len(text.lines) // 2
    return text.replaced(half, half, [other % (one, one) for one in range(half)])


def other_delimiter(text: Text, chance: random.Random) -> Lines:
    between, half = FORMATS[text.name].between, len(text.lines) // 2
    return [*text.lines[:half], *(one.replace(between, b"|") for one in text.lines[half:])]


def columns_swapped(text: Text, chance: random.Random) -> Lines:
    def change(words: Lines, form: Format) -> Lines:
        words[form.place], words[form.length] = words[form.length], words[form.place]
        return words

    return text.changed(text.all, change)


def other_unit(text: Text, chance: random.Random) -> Lines:
    """Give lengths in sectors where they are in bytes, or the other way."""

    def change(words: Lines, form: Format) -> Lines:
        length = int(words[form.length])
        words[form.length] = b"%d" % (length // 512 if length >= 4096 else length * 512)
        return words

    return text.changed(text.all, change)


def words_changed(text: Text, chance: random.Random, change: Callable[[bytes], bytes]) -> Lines:
    at = text.middle(chance)

    def changed(words: Lines, form: Format) -> Lines:
        column = chance.choice((form.place, form.length))
        words[column] = change(words[column])
        return words

    return text.changed(range(at, at + 1), changed)


def column_missing(text: Text, chance: random.Random) -> Lines:
    at = text.middle(chance)
    return text.changed(
        range(at, at + 100), lambda words, form: words[: form.place] + words[form.place + 1 :]
    )


def words_of_another_language(text: Text, chance: random.Random) -> Lines:
    other = {b"Read": b"Lesen", b"Write": b"Schreiben", b"R": b"L", b"W": b"S"}
    return text.changed(text.all, lambda words, _: [other.get(word, word) for word in words])


def gzip_damaged(text: Text, chance: random.Random) -> Lines:
    packed = bytearray(gzip.compress(b"".join(text.lines)))
    packed[chance.randrange(len(packed) // 3, len(packed) - 9)] ^= 1 << chance.randrange(8)
    return [bytes(packed)]


def gzip_cut(text: Text, chance: random.Random) -> Lines:
    packed = gzip.compress(b"".join(text.lines))
    return [packed[: chance.randrange(len(packed) // 2, len(packed) - 9)]]


Damage = Callable[[Text, random.Random], Lines]
OF_ALL: dict[str, Damage] = {
    "its end is cut": cut_end,
    "its start is cut": cut_start,
    "a hole in the middle": hole,
    "zeros in the middle": zeros,
    "noise in the middle": noise,
    "a block twice": block_doubled,
    "all of it twice": lambda text, _: text.lines * 2,
    "its two parts swapped": parts_swapped,
    "another format behind": other_format_behind,
    "a line of a log": lambda text, chance: text.replaced(
        text.middle(chance), 0, [b"-- MARK -- lost connection, 12 retries\n"]
    ),
    "two lines joined": lambda text, chance: text.replaced(
        at := text.middle(chance), 1, [text.lines[at].rstrip(b"\n")]
    ),
    "other ends of lines": lambda text, chance: [
        *text.lines[: (at := text.middle(chance))],
        *(line.replace(b"\n", b"\r\n") for line in text.lines[at:]),
    ],
    "blank lines": lambda text, chance: text.replaced(text.middle(chance), 0, [b"\n", b"   \n"]),
    "as UTF-16": lambda text, _: [b"".join(text.lines).decode().encode("utf-16")],
    "a bit of its gzip": gzip_damaged,
    "its gzip is cut": gzip_cut,
}
OF_REQUESTS: dict[str, Damage] = {
    "another delimiter from the middle on": other_delimiter,
    "place and length swapped": columns_swapped,
    "lengths in another unit": other_unit,
    "a number with zeros behind": lambda text, chance: words_changed(
        text, chance, lambda word: word + b"0" * 7
    ),
    "a number below zero": lambda text, chance: words_changed(
        text, chance, lambda word: b"-" + word
    ),
    "a number that is a word": lambda text, chance: words_changed(text, chance, lambda _: b"N/A"),
    "a column missing in a part": column_missing,
    "operations of another language": words_of_another_language,
}


def folder_of(content: bytes, source: Path, output: Path) -> TraceFolder | TracekitError:
    """Import bytes as a user does who says nothing of them."""
    source.write_bytes(content)
    try:
        return import_trace(source, output, options=ImportOptions())
    except TracekitError as error:
        return error


def said(folder: TraceFolder) -> Any:
    """Return what an import says beside its rows, without the numbers that change with these."""
    concluded = [(one["what"], one["value"]) for one in folder.content["inferences"]]
    return sorted(traces.warnings(folder)), concluded


def outcome(whole: TraceFolder, found: TraceFolder | TracekitError) -> str:
    """Compare a damaged trace with the whole one."""
    if isinstance(found, TracekitError):
        return REFUSED
    if traces.rows(found) == traces.rows(whole):
        return AS_BEFORE
    return SILENT if said(found) == said(whole) else TOLD


def looks_whole(content: bytes, name: str) -> bool:
    """Say whether each line of a damaged text of requests is a request, or its header."""
    form = FORMATS.get(name)
    lines = content.splitlines(keepends=True)
    return form is not None and all(
        line == form.head or form.is_request(line.rstrip()) for line in lines
    )


def damaged(text: Text, seeds: int) -> Iterator[tuple[str, int, bytes]]:
    """Return damage, seed and bytes of each damaged file."""
    for damage, make in (OF_ALL | (OF_REQUESTS if text.name in FORMATS else {})).items():
        for seed in range(seeds):
            chance = random.Random(f"{damage} {text.name} {seed}")  # noqa: S311 - no secret
            content = b"".join(make(text, chance))
            if content != b"".join(text.lines):
                yield damage, seed, content


def run(text: Text, seeds: int, folder: Path) -> Iterator[tuple[str, int, str]]:
    """Return damage, seed and outcome of each damaged file."""
    whole = folder_of(b"".join(text.lines), folder / "trace", folder / text.name)
    if isinstance(whole, TracekitError):
        raise whole
    for damage, seed, content in damaged(text, seeds):
        output = folder / f"{text.name} {damage} {seed}"
        result = outcome(whole, folder_of(content, folder / "trace", output))
        is_seen = result != SILENT or not looks_whole(content, text.name)
        yield damage, seed, result if is_seen else UNSEEN


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="of each damage and format")
    counts, silent = defaultdict[str, Counter[str]](Counter), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        for text in texts():
            for damage, seed, found in run(text, parser.parse_args().seeds, Path(folder)):
                counts[damage][found] += 1
                silent += [f"{damage}: {text.name}, seed {seed}"] if found == SILENT else []
    print("| damage |", " | ".join(OUTCOMES), "|\n|---|" + "---|" * len(OUTCOMES))
    for damage, results in counts.items():
        print(f"| {damage} |", " | ".join(str(results[one] or "") for one in OUTCOMES), "|")
    print(
        "| all |",
        " | ".join(str(sum(one[name] for one in counts.values())) for name in OUTCOMES),
        "|",
    )
    print(*silent, sep="\n")
    return int(bool(silent))


if __name__ == "__main__":
    sys.exit(main())
