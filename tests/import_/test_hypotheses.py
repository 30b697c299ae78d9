"""Units and columns are judged together: traces of known content, in their units and in others."""

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests import parsed as traces
from tests.import_.importer import Importer
from tests.parsed import Row

COUNT = 300
SIZES = {"bytes": 1, "sectors": 512}
TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
WALL_S = 1_577_808_144
# Bytes of the disk, alignment, lengths, share that follows the request before, requests a second.
LOADS: dict[str, tuple[int, int, list[int], float, float]] = {
    "random": (10**11, 4096, [4096], 0.0, 1000),
    "mixed": (10**11, 512, [512, 4096, 8192, 65536, 524288], 0.0, 300),
    "runs": (5 * 10**11, 4096, [131072], 0.95, 2000),
    "small": (10**9, 512, [512, 1024, 4096, 8192], 0.0, 50),
    "large": (2 * 10**12, 1 << 20, [1 << 20, 1 << 19], 0.3, 500),
    "slow": (5 * 10**10, 512, [512, 4096], 0.0, 0.1),
}
Request = tuple[float, str, int, int, str]


def requests(load: str) -> list[Request]:
    """Return seconds, device, byte, bytes and letter of some requests."""
    size, align, lengths, share, rate = LOADS[load]
    choose, time, place = random.Random(load), 0.0, 0  # noqa: S311 - test data
    found = list[Request]()
    for _ in range(COUNT):
        length = choose.choice(lengths)
        if choose.random() >= share:
            place = choose.randrange(size // align) * align
        found.append((time, choose.choice("01"), place, length, choose.choice("RW")))
        place += length
        time = round(time + choose.expovariate(rate) + 1e-6, 6)
    return found


# A line of each format, and its units of times, places and lengths.
FORMS = {
    "msr": ("{time},hm,{device},{word},{place},{length},9", "filetime", "bytes", "bytes"),
    "spc": ("{device},{place},{length},{op},{time:.6f}", "s", "sectors", "bytes"),
    "alibaba": ("{device},{op},{place},{length},{time}", "us", "bytes", "bytes"),
    "tencent": ("{time},{place},{length},{digit},{device}", "s", "sectors", "sectors"),
    "fiu": ("{time} 48 x {place} {length} {op} 6 {device} ab", "ns", "sectors", "sectors"),
    "mqsim": ("{time} {device} {place} {length} {digit}", "ns", "sectors", "sectors"),
    "disksim": ("{time:.6f} {device} {place} {length} {digit}", "ms", "sectors", "sectors"),
    "blkreplay": ("{time:.9f};{place};{length};{op};0;0", "s", "sectors", "sectors"),
}


def text_of(name: str, rows: list[Request], **units: str) -> str:
    """Return lines of a format, perhaps in other units."""
    form, time_unit, place_unit, length_unit = FORMS[name]
    lines = []
    for seconds, device, place, length, op in rows:
        moment: float = seconds * TICKS.get(units.get("time", time_unit), 1)
        if name == "msr":
            moment = int((seconds + WALL_S + 11_644_473_600) * 10**7)
        elif name in ("alibaba", "tencent"):
            moment = int((seconds + WALL_S) * TICKS[time_unit])
        digits = {"R": "0", "W": "1"} if name == "tencent" else {"R": "1", "W": "0"}
        values: dict[str, Any] = {
            "time": moment if "time:" in form else int(moment),
            "device": device,
            "place": place // SIZES[units.get("place", place_unit)],
            "length": length // SIZES[units.get("length", length_unit)],
            "op": op,
            "word": {"R": "Read", "W": "Write"}[op],
            "digit": digits[op],
        }
        lines.append(form.format(**values))
    return "\n".join(lines) + "\n"


def sizes_of(rows: list[Row]) -> list[tuple[Any, ...]]:
    return sorted(row[3:] for row in rows)


def expected(rows: list[Request]) -> list[tuple[Any, ...]]:
    words = {"R": "read", "W": "write"}
    return sorted((place // 512, length, words[op]) for _, _, place, length, op in rows)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("name", FORMS)
def test_each_format_in_its_units_and_in_others(read: Importer, name: str, load: str) -> None:
    # GIVEN a trace in the units of its format, of which a few or many lines are there
    rows, (_, _, place, length) = requests(load), FORMS[name]
    for count in (1, 9, COUNT):
        # WHEN it is imported THEN it is what it is
        found = read.rows(text_of(name, rows[:count]))
        assert sizes_of(found) == expected(rows[:count])
    # AND with other units it is stopped, or doubted, and what is advised makes it right
    other = {"bytes": "sectors", "sectors": "bytes"}
    for units in (
        {"place": other[place]},
        {"length": other[length]},
        {"place": other[place], "length": other[length]},
    ):
        if load == "large" and "bytes" not in units.values():
            continue  # 1,024 sectors at multiples of 2,048 are as good as bytes
        text = text_of(name, rows, **units)
        message = advice_of(read, text)
        options = tuple(re.findall(r"--unit (\S+)", message))
        assert sizes_of(read.rows(text, units=options)) == expected(rows), message


def advice_of(read: Importer, text: str) -> str:
    """Return the units that are likelier, by the error or the warning."""
    try:
        said = traces.warnings(read(text))["doubtful_units"]
    except Exception as error:
        said = str(error)
    best = re.search(r"(?:likelier|as likely): ([^(]*)\(", said)
    assert best, said
    return best[1]


ORDERS = (
    "time device offset length op",
    "time device op offset length",
    "device time op offset length",
    "time op offset length device",
    "offset length op device time",
)


def unknown_texts(rows: list[Request]) -> Iterator[tuple[str, str, str]]:
    """Yield texts of no known format, with the unit of their times and places."""
    for number, order in enumerate(ORDERS):
        delimiter, tick = " ,;\t|"[number], ("ms", "us", "s")[number % 3]
        unit = ("bytes", "sectors")[number % 2]
        lines = []
        for seconds, device, place, length, op in rows:
            values = {
                "time": f"{seconds * TICKS[tick]:.{3 if tick != 'us' else 0}f}",
                "device": device,
                "offset": str(place // SIZES[unit]),
                "length": str(length // SIZES[unit]),
                "op": op.lower(),
            }
            lines.append(delimiter.join(values[name] for name in order.split()))
        yield "\n".join(lines) + "\n", tick, unit


@pytest.mark.parametrize("load", ["random", "mixed", "runs"])
def test_columns_of_an_unknown_text_are_proposed(read: Importer, load: str) -> None:
    rows = requests(load)
    for text, tick, unit in unknown_texts(rows):
        # WHEN a text of no known columns is imported THEN it stops, or its units are advised
        message = read.rejects(text, "(its columns may be|likelier|as likely): ")
        best = re.search(r"(?:its columns may be|likelier): ([^(]*)\(", message)
        assert best, message
        columns = re.search(r"--columns (\S+)", best[1])
        units = re.findall(r"--unit (\S+)", best[1])
        options: dict[str, Any] = {"columns": columns[1]} if columns else {}
        if shown := re.search(r"--delimiter (?:'(.)'|\$'\\\\?t')", best[1]):
            options["delimiter"] = shown[1] or "\t"
        if f"or time={tick}" in message or not any(one.startswith("time=") for one in units):
            units.append(f"time={tick}")
        # AND with these options it is what it is
        found = read(text, units=tuple(units), **options)
        assert sizes_of(traces.rows(found)) == expected(rows), (message, unit)
        span_s = found.content["clock"]["duration_ns"] / 1e9
        assert span_s == pytest.approx(rows[-1][0], rel=0.01)


def test_a_small_margin_stops_and_each_is_chosen_by_its_option(read: Importer) -> None:
    # GIVEN 2,048 at multiples of 4,096: 1 MiB at multiples of 2 MiB, or 2 KiB at those of 4 KiB
    choose = random.Random(1)  # noqa: S311 - test data
    text = "".join(
        f"{n}000000 0 {choose.randrange(10**6) * 4096} 2048 {n % 2}\n" for n in range(COUNT)
    )
    message = read.rejects(text, "units contradict")
    both = "--unit offset=bytes --unit length=bytes"
    assert f"as likely: {both} (score" in message
    assert f"if they are as they were taken: {both.replace('bytes', 'sectors')}" in message
    # THEN either is taken with its options
    for unit, size in SIZES.items():
        made = read(text, units=(f"offset={unit}", f"length={unit}"))
        assert set(traces.requests(made)["length_bytes"].to_pylist()) == {2048 * size}


def test_requests_of_disks_are_no_packets_of_gem5(read: Importer) -> None:
    # GIVEN time, operation, place, length and device, which gem5 could number packets by
    text = "".join(f"{n * 900},r,{n % 77 * 4096},4096,1\n" for n in range(100))
    message = read.rejects(text, "its columns may be: --columns time,op,offset,length,device ")
    assert "--unit offset=bytes --unit length=bytes" in message


def test_wrong_lines_only_are_explained(read: Importer) -> None:
    options: dict[str, Any] = {"columns": "time,op,offset,length", "explains": True}
    read.rejects("what,is,this,line\n" * 9, "9 of 9 lines are wrong", **options)
