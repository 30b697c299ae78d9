"""Parts of a text whose places or lengths are those of the others times 512."""

import random
from collections.abc import Callable

import pytest

from tests import parsed as traces
from tests.import_.importer import Importer
from tracekit.errors import InputError

ROWS = 3000
Load = Callable[[random.Random], list[tuple[int, int]]]
FORMS = {
    "spc": ("0,{place},{length},R,{seconds:.6f}\n", 512),
    "fiu": ("{ns} 12 dd {place} {length} W 8 0 " + "0" * 32 + "\n", 1),
    "biosnoop": ("{seconds:.6f} dd 697 sda R {place} {length} 0.44\n", 512),
}
"""A line, and what a length of a sector is in it."""
BIOSNOOP_HEAD = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n"


def scattered(chance: random.Random, disk_sectors: int, follow: float) -> list[tuple[int, int]]:
    place, found = 0, list[tuple[int, int]]()
    for _ in range(ROWS):
        if chance.random() >= follow:
            place = chance.randrange(disk_sectors // 8) * 8
        found.append((place, chance.choice((8, 8, 16, 32, 128))))
        place += found[-1][1]
    return found


def hot(chance: random.Random) -> list[tuple[int, int]]:
    """Return requests of which most are to few places."""
    places = (int((1 << 25) * chance.random() ** 4) * 8 for _ in range(ROWS))
    return [(place, chance.choice((8, 16, 64))) for place in places]


LOADS: dict[str, Load] = {
    "random": lambda chance: scattered(chance, 1 << 28, 0.0),
    "sequential": lambda chance: scattered(chance, 1 << 28, 0.95),
    "hot": hot,
    "1 GiB": lambda chance: scattered(chance, 1 << 21, 0.4),
    "4 TiB": lambda chance: scattered(chance, 1 << 33, 0.4),
}


def text_of(
    form: str, load: str, *, part: range = range(0), place: float = 1, length: float = 1
) -> str:
    """Return a load in a format; places and lengths of a part have other factors."""
    line, unit = FORMS[form]
    found = [BIOSNOOP_HEAD] if form == "biosnoop" else []
    for row, (sector, sectors) in enumerate(LOADS[load](random.Random(load))):  # noqa: S311
        factors = (place, length) if row in part else (1.0, 1.0)
        numbers = {"place": int(sector * factors[0]), "length": int(sectors * unit * factors[1])}
        found.append(line.format(**numbers, seconds=row / 200, ns=row * 5_000_000))
    return "".join(found)


def said_of(read: Importer, text: str) -> str:
    """Return what an import says of the units: why it stops, or its warning."""
    try:
        return traces.warnings(read(text)).get("doubtful_units", "")
    except InputError as error:
        return str(error)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("form", FORMS)
def test_parts_in_another_unit_are_seen(read: Importer, form: str, load: str) -> None:
    # GIVEN a text whose units are right THEN nothing is said of them
    assert said_of(read, text_of(form, load)) == ""
    # WHEN bytes stand for sectors, or sectors for bytes, in a part THEN it is refused or doubted
    factors: list[tuple[float, float]] = [(512, 1), (1 / 512, 1), (512, 512), (1, 512)]
    factors += [(1, 1 / 512), (512, 1 / 512)] if form != "fiu" else []
    silent = [
        (place, length, part)
        for place, length in factors
        for part in (range(400), range(1200, 2100), range(1500, ROWS))
        if not said_of(read, text_of(form, load, part=part, place=place, length=length))
    ]
    assert silent == []


def test_a_part_is_refused_with_its_line(read: Importer) -> None:
    # GIVEN lengths in bytes, and those of a part 512 times as large
    text = text_of("spc", "random", part=range(1000, 1600), length=512)
    message = read.rejects(text, "the units contradict the numbers", form="spc")
    found = message.partition("times 512, from about line ")[2].partition(" on")[0]
    assert abs(int(found.replace(",", "")) - 1001) <= ROWS // 64
    # WHEN the user says that it is so THEN it is taken, and a warning
    made = read(text, form="spc", forces_units=True)
    assert "lengths of a part are those" in traces.warnings(made)["doubtful_units"]
    # AND the same numbers in the same unit, wherever they are, are no part
    assert said_of(read, text_of("spc", "random")) == ""


def test_places_that_may_be_anywhere_are_a_doubt(read: Importer) -> None:
    # GIVEN requests of odd sectors, which have no alignment, and a part 512 times nearer
    chance, lines = random.Random(2), list[str]()  # noqa: S311 - test data
    for row in range(ROWS):
        place = chance.randrange(1 << 28) // (512 if 900 <= row < 1800 else 1)
        length = chance.choice((1, 2, 7, 13)) * 512
        lines.append(FORMS["spc"][0].format(place=place, length=length, seconds=row / 200))
    said = traces.warnings(read("".join(lines)))["doubtful_units"]
    assert (
        "places of a part spread as those of the others times 512, from about line 897 on" in said
    )


@pytest.mark.parametrize("sectors", [8, 4096])
def test_a_phase_of_a_near_region_is_no_part(read: Importer, sectors: int) -> None:
    # GIVEN random requests of a whole disk, then of a 512th of it, both of whole blocks
    chance, lines = random.Random(2), list[str]()  # noqa: S311 - test data
    for row in range(ROWS):
        blocks = (1 << 28) // sectors // (512 if row >= 1500 else 1)
        place = chance.randrange(blocks) * sectors
        lines.append(FORMS["spc"][0].format(place=place, length=sectors * 512, seconds=row / 200))
    assert "of a part" not in said_of(read, "".join(lines))
