"""Units, columns and files that are not what they seem, and what is said of the judgement."""

import random
from pathlib import Path

import pytest

from tests import parsed as traces
from tests.decode.records import pack
from tests.import_.examples import lines_of
from tests.import_.importer import Importer
from tracekit.readers.blktrace import parse
from tracekit.readers.importing import import_trace

MQSIM = "{number}000000 0 {place} {length} 1\n"


def test_bytes_as_sectors(read: Importer) -> None:
    # GIVEN bytes in a format of sectors THEN both are named, and one that is left
    both = "--unit offset=bytes --unit length=bytes"
    assert both in read.rejects(lines_of(MQSIM), "units contradict", form="mqsim")
    first = ("offset=bytes",)
    message = read.rejects(lines_of(MQSIM), "units contradict", form="mqsim", units=first)
    assert "--unit length=bytes" in message
    units = (*first, "length=bytes")
    found = traces.requests(read(lines_of(MQSIM), form="mqsim", units=units)).to_pydict()
    assert set(found["length_bytes"]) == {4096, 8192, 65536}


def test_large_requests_that_follow_each_other_are_of_sectors(read: Importer) -> None:
    # GIVEN a stream of 256 KiB each, from a place that is no multiple of its length
    lines = [MQSIM.format(number=n, place=2049 + 512 * n, length=512) for n in range(300)]
    found = traces.requests(read("".join(lines), form="mqsim")).to_pydict()
    assert set(found["length_bytes"]) == {512 * 512}


def test_exchanged_columns_are_refused(read: Importer) -> None:
    choose = random.Random(3)  # noqa: S311 - test data
    lines = "".join(f"0,8,{choose.randrange(10**5) * 512},r,{n / 10}\n" for n in range(300))
    assert "exchanged" in read.rejects(lines, "units contradict", form="spc")


BOTH = "--unit offset=bytes --unit length=bytes"


@pytest.mark.parametrize(
    ("odd_places", "odd_lengths"), [(2, 0), (0, 2), (12, 12), (1000, 0), (1000, 1000)]
)
def test_a_few_odd_numbers_do_not_hide_bytes(
    read: Importer, odd_places: int, odd_lengths: int
) -> None:
    # GIVEN bytes where sectors are expected, some of which are no whole sectors
    choose, lines = random.Random(5), list[str]()  # noqa: S311 - test data
    for number in range(1000):
        place = choose.randrange(2 * 10**7) * 4096 + (17 if number < odd_places else 0)
        length = choose.choice([4096, 8192, 65536]) + (5 if number < odd_lengths else 0)
        lines.append(f"{number / 10:.6f} 0 {place} {length} {number % 2}\n")
    # WHEN it is imported THEN the units are asked for; places alone can be sectors
    message = read.rejects("".join(lines), "units contradict", form="disksim")
    assert (BOTH if odd_places < 1000 or odd_lengths else "--unit length=bytes") in message


def test_large_requests_of_sectors_are_read(read: Importer) -> None:
    # GIVEN requests of 256 KiB to 1 MiB at any place, nearly all of which are multiples of 512
    choose = random.Random(5)  # noqa: S311 - test data
    lines = "".join(
        MQSIM.format(
            number=number,
            place=choose.randrange(10**6) * 512 + (number % 50 == 0),
            length=choose.choice([512, 1024, 2048]) - (number % 50 == 0),
        )
        for number in range(300)
    )
    assert len(traces.rows(read(lines, form="mqsim"))) == 300


def test_lengths_in_bytes_beside_places_in_bytes(read: Importer) -> None:
    # GIVEN bytes in a format of sectors, of requests that follow each other
    place, lines = 0, list[str]()
    for number in range(300):
        lines.append(MQSIM.format(number=number, place=place, length=4096))
        place += 4096 if number % 2 else 1 << 20
    # WHEN one unit is given THEN the other is asked for, and not the first taken back
    given = ("length=bytes",)
    message = read.rejects("".join(lines), "units contradict", form="mqsim", units=given)
    assert "--unit offset=bytes" in message
    assert "--unit length=sectors" not in message


def test_sectors_as_bytes(read: Importer) -> None:
    # GIVEN lengths of 8 and 16 in a format of bytes, of requests that do not follow each other
    choose = random.Random(5)  # noqa: S311 - test data
    lines = "".join(
        f"0,{choose.randrange(10**8)},{choose.choice([8, 16])},R,{number / 10}\n"
        for number in range(300)
    )
    # WHEN it is imported THEN they cannot be bytes, and the unit that fits is named
    message = read.rejects(lines, "lengths cannot be bytes: 300 of 300", form="spc")
    assert "--unit length=sectors" in message
    made = read(lines, form="spc", units=("length=sectors",))
    assert set(traces.requests(made)["length_bytes"].to_pylist()) == {4096, 8192}


def test_lengths_that_are_no_whole_sectors_are_doubted(read: Importer) -> None:
    lines = "".join(f"0,{n * 100},{4000 + n},R,{n / 10}\n" for n in range(300))
    said = traces.warnings(read(lines, form="spc"))["doubtful_units"]
    assert "299 of 300 lengths are no whole sectors" in said


@pytest.mark.parametrize("form", ["0,{length},{place},r,{seconds}\n", MQSIM])
def test_exchanged_columns_of_a_small_disk(read: Importer, form: str) -> None:
    # GIVEN four lengths where places stand, and 300 places of a small disk where lengths do
    choose, lines = random.Random(3), list[str]()  # noqa: S311 - test data
    places = [choose.randrange(10**6) * 8 for _ in range(300)]
    for number in range(2000):
        values = {"place": choose.choice(places), "length": choose.choice([8, 16, 32, 128])}
        if form == MQSIM:
            values = {"place": values["length"], "length": values["place"]}
        lines.append(form.format(number=number, seconds=number / 10, **values))
    message = read.rejects("".join(lines), "units contradict")
    assert "are the two columns exchanged?" in message
    assert "--unit" not in message


IOSNOOP = (
    "STIME(us)     TIME(us)      DELTA(us)   UID   PID D    BLOCK   SIZE       COMM PATHNAME\n"
)


def dtrace(number: int) -> str:
    times = f"{number * 900} {number * 900 + 80} 80"
    return f"{times} 100 {1000 + number} R {1795425520 + 8 * number} {8192 + number} bash /bin/ls\n"


def test_a_header_that_names_other_columns_is_refused(read: Importer) -> None:
    # GIVEN the output of a program like DTrace's iosnoop: its lines have FIU's kinds of columns
    lines = "".join(map(dtrace, range(300)))
    head = IOSNOOP.replace("UID", "USER")
    read.rejects(head + lines, "look like fiu, and its header names other columns: STIME")
    # AND without its header every request has its own device
    read.rejects(lines, "300 requests are of 300 devices: its column is another one")


def test_devices_of_a_few_requests_each_are_read(read: Importer) -> None:
    lines = "".join(f"{n // 3},W,{n * 4096},4096,{1577808144000000 + n}\n" for n in range(300))
    assert len(read(lines).content["devices"]) == 100


def test_what_was_judged_is_explained_where_the_import_stops(read: Importer) -> None:
    # GIVEN bytes in a format of sectors, a clock that starts again, and a text of no format
    sectors = lines_of("{number} 0 {place} {length} 1\n")
    clock = "".join(f"{n % 200}000000 0 {8 * n} 8 1\n" for n in range(400))
    explained = "(?s)\n  format: mqsim .*\n  formats: .*header and units of the first"
    for text in (sectors, clock):
        read.rejects(text, explained, form="mqsim", explains=True)
        assert "\n  formats: " not in read.rejects(text, "x", form="mqsim")
    text = "0;a;0;8;put\n" * 20
    read.rejects(text, "known format: .*\n  formats in the first 64 KiB", explains=True)


def test_files_of_other_cpus_beside_the_given_one(tmp_path: Path) -> None:
    # GIVEN a capture of two CPUs, and another beside it
    for name, cpu in (("c.blktrace.0", 0), ("c.blktrace.1", 1), ("d.blktrace.7", 7)):
        (tmp_path / name).write_bytes(pack(f"100 Q W 3048+8 cpu={cpu}\n200 C W 3048+8 cpu={cpu}"))
    # WHEN one file is imported THEN the other CPU's is named
    made = import_trace(tmp_path / "c.blktrace.0", tmp_path / "one")
    said = traces.warnings(made)["unread_files"]
    assert said == "c.blktrace.1 lies beside what was given"
    # AND of both nothing is said
    both = [tmp_path / "c.blktrace.0", tmp_path / "c.blktrace.1"]
    assert "unread_files" not in traces.warnings(import_trace(both, tmp_path / "both"))
    # AND parse says the same
    parsed, _ = parse(both[:1], tmp_path / "parsed")
    assert traces.warnings(parsed)["unread_files"] == said


FIU = "{time_ns} 12 dd {place} {length} W 8 0 " + "0" * 32 + "\n"
TENCENT = "{time_s},{place},{length},0,1283\n"
SPC = "0,{place},{length},R,{seconds}\n"
IN_SECTORS, AS_BYTES = (1, 1), (512, 512)


def of_two_units(
    form: str, first: tuple[float, float], then: tuple[float, float], *, from_row: int
) -> str:
    """Return 3,000 random requests, whose places and lengths have other factors from a row on."""
    choose, found = random.Random(5), list[str]()  # noqa: S311 - test data
    for row in range(3000):
        factors = then if row >= from_row else first
        place, length = choose.randrange(25_000_000) * 8, choose.choice([8, 8, 16, 64, 128])
        at = {
            "time_ns": row * 5_000_000,
            "time_s": 1_538_323_200 + row // 200,
            "seconds": row / 200,
        }
        numbers = {"place": place * factors[0], "length": int(length * factors[1])}
        found.append(form.format(**at, **numbers))
    return "".join(found)


@pytest.mark.parametrize("from_row", [1000, 2700])
@pytest.mark.parametrize(
    ("form", "first", "then", "what"),
    [
        (FIU, IN_SECTORS, AS_BYTES, "lengths"),
        (TENCENT, IN_SECTORS, AS_BYTES, "lengths"),
        (TENCENT, AS_BYTES, IN_SECTORS, "lengths"),
        (TENCENT, IN_SECTORS, (1, 512), "lengths"),
        (SPC, (1, 512), (512, 512), "places"),
        (SPC, (1, 512), (1, 1), "lengths"),
    ],
)
def test_a_unit_that_changes_is_refused(
    read: Importer, form: str, first: tuple[float, float], then: tuple[float, float],
    what: str, from_row: int,
) -> None:  # fmt: skip
    lines = of_two_units(form, first, then, from_row=from_row)
    kind = {FIU: "fiu", TENCENT: "tencent", SPC: "spc"}[form]
    message = read.rejects(lines, "units contradict the numbers", form=kind)
    if form is not TENCENT or first is IN_SECTORS:  # else the whole file is likelier in bytes
        assert f"the unit of {what} changes about here: line {from_row // 100}" in message


@pytest.mark.parametrize("sectors", [2048, 4096])
@pytest.mark.parametrize("place", [2048 * 1000, 2048 * 1_000_000])
def test_large_requests_after_small_ones_are_of_one_unit(
    read: Importer, sectors: int, place: int
) -> None:
    # GIVEN small requests here and there, then a stream of 1 or 2 MiB each at multiples of that
    small = of_two_units(TENCENT, IN_SECTORS, IN_SECTORS, from_row=0)
    stream = "".join(
        TENCENT.format(time_s=1_538_323_300 + n // 9, place=place + n * sectors, length=sectors)
        for n in range(2000)
    )
    found = traces.requests(read(small + stream, form="tencent")).to_pydict()
    assert sum(found["length_bytes"][3000:]) == 2000 * sectors * 512


@pytest.mark.parametrize(("every", "share"), [(10, "10%"), (3, "33%")])
def test_many_places_far_behind_the_others_are_told(read: Importer, every: int, share: str) -> None:
    # GIVEN a share of the places more than a thousand times as far as all others
    def sector(row: int) -> int:
        return (10**15 if row % every == 0 else 0) // 512 + row * 24_000 % 10**8

    lines = "".join(f"0,{sector(n)},4096,R,{n / 200}\n" for n in range(3000))
    near = "".join(f"0,{sector(n * every + 1)},4096,R,{n / 200}\n" for n in range(3000))
    said = traces.warnings(read(lines, form="spc"))["lone_places"]
    assert said.startswith(f"{share} of all places are {10**15 // 512:,} and beyond")
    assert "lone_places" not in traces.warnings(read(near, form="spc"))


def of_blocks(form: str, *, share: float, places: int, lengths: int) -> str:
    """Return requests of 1, 2 and 5 blocks, a share of them behind the one before."""
    choose = random.Random(7)  # noqa: S311 - test data
    place, found = 0, list[str]()
    for row in range(1000):
        length = choose.choice([8, 16, 40])
        if choose.random() >= share:
            place = choose.randrange(10**7) * 8
        at = {"time_ns": row * 5_000_000, "time_s": 1_538_323_200 + row, "seconds": row / 9}
        units = {"place": place * 512 // places, "length": length * 512 // lengths}
        found.append(form.format(**at, **units))
        place += length
    return "".join(found)


@pytest.mark.parametrize(
    ("form", "length", "share"),
    [(SPC, 1, 0.0), (SPC, 1, 0.3), (TENCENT, 512, 0.0), (FIU, 512, 0.3)],
)
def test_places_in_blocks(read: Importer, form: str, length: int, share: float) -> None:
    # GIVEN numbers of 4 KiB blocks where sectors are expected, and lengths in their unit
    lines = of_blocks(form, share=share, places=4096, lengths=length)
    # WHEN no request follows another THEN the blocks are a warning, else the import stops
    if share:
        said = read.rejects(lines, "begin where the one before ends if there are blocks")
    else:
        said = traces.warnings(read(lines))["doubtful_units"]
    assert "--unit offset=pages --page 4096B" in said
    # AND what is advised makes it right
    made = traces.requests(read(lines, units=("offset=pages",), page_bytes=4096)).to_pydict()
    right = read(of_blocks(form, share=share, places=512, lengths=length))
    assert "doubtful_units" not in traces.warnings(right)
    assert made["sector"] == traces.requests(right)["sector"].to_pylist()


@pytest.mark.parametrize("places", [512, 4096])
def test_lengths_in_blocks(read: Importer, places: int) -> None:
    # GIVEN lengths of 1, 2 and 5 blocks, beside places in sectors or in blocks, of random requests
    lines = of_blocks(FIU, share=0.0, places=places, lengths=4096)
    said = traces.warnings(read(lines))["doubtful_units"]
    assert "0 of 999 lengths are whole blocks of 4 KiB" in said
    units = "--unit length=pages --page 4096B"
    assert (f"--unit offset=pages {units}" if places == 4096 else f": {units}") in said


def test_a_stride_is_no_block(read: Importer) -> None:
    # GIVEN 4 KiB of every 32 KiB THEN that lengths are blocks is a warning
    lines = "".join(FIU.format(time_ns=n * 10**6, place=n * 64, length=8) for n in range(300))
    made = read(lines)
    assert set(traces.requests(made)["length_bytes"].to_pylist()) == {4096}
    assert "begin eight lengths behind" in traces.warnings(made)["doubtful_units"]


@pytest.mark.parametrize(("begin", "count"), [(0, 400), (1000, 30), (2970, 30)])
@pytest.mark.parametrize("form", [FIU, TENCENT, SPC])
def test_columns_exchanged_in_a_part_are_refused(
    read: Importer, form: str, begin: int, count: int
) -> None:
    # GIVEN a disk of 1 GiB, so small that each place can be a length
    choose, lines = random.Random(5), list[str]()  # noqa: S311 - test data
    for row in range(3000):
        place = choose.randrange(1 << 18) * 8
        length = choose.choice([8, 8, 16, 64]) * (512 if form is SPC else 1)
        if begin <= row < begin + count:
            place, length = length, place
        at = {"time_ns": row * 10**6, "time_s": 1_538_323_200 + row, "seconds": row / 9}
        lines.append(form.format(place=place, length=length, **at))
    message = read.rejects("".join(lines), "places and lengths are exchanged from about here")
    line = int(message.partition("here: line ")[2].partition(":")[0])
    assert begin < line < begin + 20


def test_a_few_outliers_are_shown(read: Importer) -> None:
    # GIVEN a place 46 times beyond the others, and a length of 32 MiB among 4 KiB
    lines = [SPC.format(place=n * 8000 % 10**7, length=4096, seconds=n / 9) for n in range(3000)]
    lines[700] = SPC.format(place=46 * 10**7, length=4096, seconds=77.8)
    lines[900] = SPC.format(place=8, length=32 << 20, seconds=100)
    # WHEN it is imported THEN they are taken, and shown with their lines
    made = read("".join(lines))
    assert len(traces.rows(made)) == 3000
    found = [one for one in made.content["inferences"] if one["what"] == "outliers"]
    assert [one["value"] for one in found] == ["1 place", "1 length"]
    assert "460,000,000 in line 701: " in found[0]["evidence"]
    assert "33,554,432 in line 901: " in found[1]["evidence"]


@pytest.mark.parametrize(("form", "length"), [(SPC, 1), (TENCENT, 512), (FIU, 512)])
def test_blocks_in_a_part_are_a_warning(read: Importer, form: str, length: int) -> None:
    # GIVEN places that are sectors, then numbers of blocks
    parts = [of_blocks(form, share=0.3, places=unit, lengths=length) for unit in (512, 4096)]
    lines = [part.splitlines(keepends=True) for part in parts]
    said = traces.warnings(read("".join([*lines[0][:600], *lines[1][600:]])))["doubtful_units"]
    assert "begin where the one before ends in other units" in said
