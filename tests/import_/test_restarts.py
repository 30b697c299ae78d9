"""A clock that starts again, words of operations, and places far from the others."""

import os
import random
import threading
from collections.abc import Sequence

import pytest

from tests import parsed as traces
from tests.import_.examples import lines_of
from tests.import_.importer import Importer
from tracekit.errors import UsageError
from tracekit.readers import reading

COLUMNS = "time,op,offset,length,device"
Times = Sequence[float]


def text_of(*parts: Times, device: str = "sda") -> str:
    """Return lines of one's own columns, in the order of the parts."""
    times = [time for part in parts for time in part]
    lines = (f"{time},R,{number * 4096},4096,{device}\n" for number, time in enumerate(times))
    return "".join(lines)


def climb(count: int, *, first: float = 0.0, seed: int = 1) -> list[float]:
    choose, time, found = random.Random(seed), first, list[float]()  # noqa: S311 - test data
    for _ in range(count):
        found.append(round(time, 6))
        time += choose.expovariate(10)
    return found


@pytest.fixture(params=[1 << 20, 3000], ids=["one block", "blocks"])
def _blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CHUNK_BYTES", request.param)


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("sizes", [(300, 300), (100, 40, 900), (1000, 33), (500, 400, 300, 200)])
def test_traces_one_after_the_other(read: Importer, sizes: tuple[int, ...]) -> None:
    # GIVEN traces in one file, each with a clock of its own from 0
    parts = [climb(size, seed=size) for size in sizes]
    text = text_of(*parts)
    # THEN the line of each is named, and what to do
    message = read.rejects(text, "its clock starts again", hint="--join sequence", columns=COLUMNS)
    starts = [sum(sizes[: number + 1]) + 1 for number in range(len(sizes) - 1)]
    for start, part in zip(starts, parts[1:], strict=True):
        assert f"at line {start}: {part[0]},R,{(start - 1) * 4096}," in message
    # AND one goes on where the one before has ended
    ends, end_ns = list[int](), 0
    for part in parts:
        ends += [end_ns + round((time - part[0]) * 1e9) for time in part]
        end_ns = ends[-1]
    made = read(text, columns=COLUMNS, join="sequence")
    assert [row[0] for row in traces.rows(made)] == ends
    places = traces.requests(made).to_pydict()["sector"]
    assert places == [number * 8 for number in range(sum(sizes))]
    said = next(one for one in made.content["inferences"] if one["what"] == "clock")
    assert f"{len(starts)} times" in said["value"] or said["value"] == "starts again once"
    # AND how it is judged is shown, with the other way
    said = next(one for one in made.content["inferences"] if one["what"] == "judgement")
    assert "the pauses are not known" in said["evidence"]
    assert "the next: --join overlay, parts of one time" in said["evidence"]
    # AND of the same time they are in order of it
    times_ns = sorted(round(time * 1e9) for part in parts for time in part)
    assert [row[0] for row in traces.rows(read(text, columns=COLUMNS, join="overlay"))] == times_ns


@pytest.mark.parametrize("join", ["sequence", "overlay"])
def test_a_trace_that_is_joined_twice_is_told(read: Importer, join: str) -> None:
    # GIVEN a trace twice in one file
    part = climb(300)
    made = read(text_of(part, part), columns=COLUMNS, join=join)
    # THEN it is told, and weighed in how both ways are judged
    assert "the same trace twice?" in traces.warnings(made)["repeated_parts"]
    said = next(one for one in made.content["inferences"] if one["what"] == "judgement")
    assert said["evidence"].count("the same trace twice?") == 2
    # BUT not of another one
    made = read(text_of(part, climb(300, first=1)), columns=COLUMNS, join=join)
    assert "repeated_parts" not in traces.warnings(made)


def disorder(kind: str) -> list[float]:
    """Return times of one clock that are in no order."""
    times, choose = climb(2000), random.Random(5)  # noqa: S311 - test data
    if kind == "shuffled":
        choose.shuffle(times)
    elif kind == "reversed":
        times.reverse()
    elif kind == "completions":
        times.sort(key=lambda time: time + choose.expovariate(0.5))
    elif kind == "an early line":
        times[1500] = 0.0
    elif kind == "a few early lines":
        times[1000:1020] = climb(20)
    elif kind == "a wrong time":
        times[1000] += 2000
    elif kind == "swapped lines":
        times[300:303], times[1700:1703] = times[1700:1703], times[300:303]
    elif kind == "late lines":
        times[1000:1020] = climb(20, first=900)
    elif kind == "buffers":
        for at in range(1000, 2000, 100):
            times[at : at + 100] = times[at : at + 100 : 2] + times[at + 1 : at + 100 : 2]
    elif kind == "seconds":
        times = [float(int(time)) for time in times]
    return times


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize(
    "kind",
    [
        "shuffled",
        "reversed",
        "completions",
        "an early line",
        "a few early lines",
        "a wrong time",
        "swapped lines",
        "late lines",
        "buffers",
        "seconds",
    ],
)
def test_disorder_is_no_other_clock(read: Importer, kind: str) -> None:
    times = disorder(kind)
    first_ns = round(min(times) * 1e9)
    for join in ("refuse", "sequence"):
        found = [row[0] for row in traces.rows(read(text_of(times), columns=COLUMNS, join=join))]
        assert found == sorted(round(time * 1e9) - first_ns for time in times)


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("share", [0.9, 0.6, 0.4])
def test_a_piece_that_lies_over_the_end(read: Importer, share: float) -> None:
    # GIVEN a trace and one behind it that begins before it has ended
    before = climb(2000)
    after = climb(2000, first=share * before[-1], seed=2)
    # WHEN it is imported THEN the line is named
    text = text_of(before, after)
    message = read.rejects(text, "starts again once", hint="--join overlay", columns=COLUMNS)
    assert "at line 2001: " in message
    # AND as of one time, all that stand behind a later one are counted
    count = sum(time < before[-1] for time in after)
    said = traces.warnings(read(text, columns=COLUMNS, join="overlay"))["reordered_records"]
    first = "the first of them: line 2001: "
    assert said.startswith(f"{count:,} requests stood behind a later one, {first}")
    # AND one after the other none does
    made = read(text, columns=COLUMNS, join="sequence")
    assert "reordered_records" not in traces.warnings(made)


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize(("kind", "lines"), [("a wrong time", [1001]), ("an early line", [1501])])
def test_a_wrong_time_is_shown(read: Importer, kind: str, lines: list[int]) -> None:
    said = traces.warnings(read(text_of(disorder(kind)), columns=COLUMNS))["reordered_records"]
    assert said.startswith("1 request stood behind a later one or before an earlier: line ")
    assert [f"line {line}: " in said for line in lines] == [True]


def test_a_wrong_time_makes_no_pause_between_parts(read: Importer) -> None:
    # GIVEN two traces, the first with a time far behind its end
    before, after = climb(500), climb(500, seed=2)
    before[300] += 5000
    # WHEN they are put one after the other
    made = read(text_of(before, after), columns=COLUMNS, join="sequence")
    # THEN the second begins where the others of the first end
    first = [row[0] for row in traces.rows(made)][499]
    assert first == round(before[-1] * 1e9)


def test_whole_seconds_that_start_again(read: Importer) -> None:
    times = [float(number // 100) for number in range(3000)]
    message = read.rejects(text_of(times, times), "starts again once", columns=COLUMNS)
    assert "line 3001" in message


def test_disks_one_after_the_other(read: Importer) -> None:
    # GIVEN two disks, one after the other
    def text(first_s: int) -> str:
        parts = (text_of(climb(200, first=first_s), device=name) for name in ("sda", "sdb"))
        return "".join(parts)

    # THEN dates say how they lie, and times from anywhere do not
    read.rejects(text(0), "starts again once", columns=COLUMNS)
    lines = "".join(
        f"{int(float(line.split(',')[0]) * 1e7)},host,{number // 200},Read,{number * 4096},4096,1\n"
        for number, line in enumerate(text(12_816_637_200).splitlines())
    )
    assert len(traces.rows(read(lines, form="msr"))) == 400


def test_a_pipe_is_not_read_twice(read: Importer) -> None:
    os.mkfifo(read.source)
    text = text_of(climb(200), climb(200))
    writer = threading.Thread(target=read.source.write_text, args=(text,))
    writer.start()
    hint = "give the trace as a file"
    read.rejects(read.source, "starts again once", hint=hint, columns=COLUMNS, join="sequence")
    writer.join()


WORDS = "".join(f"{n},{('get', 'put')[n % 2]},{n * 4096},4096,sda\n" for n in range(200))


def test_words_of_operations_can_be_given(read: Importer) -> None:
    # GIVEN words that no format knows
    hint = "--op get=OPERATION --op put=OPERATION"
    read.rejects(WORDS, "200 of 200 lines are wrong", hint=hint, columns=COLUMNS)
    # WHEN their meaning is given THEN they are requests
    made = read(WORDS, columns=COLUMNS, operations=("GET=read", "put=write"))
    assert made.content["counts"]["operations"] == {"read": 100, "write": 100}


def test_operations_of_0_and_1_are_asked_for(read: Importer) -> None:
    # GIVEN numbers for operations, below a header and in a known format
    rows = [(n, n % 2, n * 4096) for n in range(200)]
    csv = "time_s,op,offset_bytes,length_bytes\n" + "".join(
        f"{t},{o},{p},512\n" for t, o, p in rows
    )
    spc = "".join(f"0,{p // 512},4096,{o},{t}.5\n" for t, o, p in rows)
    for text, message in (csv, "200 of 200 lines are wrong"), (spc, "spc but for its words"):
        read.rejects(
            text, message, hint="--op 0=read --op 1=write, or the other way round: --op 0=w"
        )
        made = read(text, operations=("0=read", "1=write"))
        assert made.content["counts"]["operations"] == {"read": 100, "write": 100}
    # AND not where the other columns cannot be those of requests
    numbers = "".join(f"{p + 77},{p},{o},{t},7\n" for t, o, p in rows)
    read.rejects(numbers, "of no known format", hint="--columns")


def test_words_that_do_not_make_a_line_a_request_are_not_asked_for(read: Importer) -> None:
    # GIVEN a trace behind one of another format, in whose second column a host stands
    alibaba = "".join(f"1,R,{n * 4096},4096,{1577808144000000 + n}\n" for n in range(90))
    msr = "".join(f"128166372003061629,hm,{n},Read,512,512,1\n" for n in range(90))
    message = r"up to line 90 \(50.0% of the first 180\) it looks like alibaba, then like msr"
    read.rejects(alibaba + msr, message, hint="by itself: head -n 90")


@pytest.mark.parametrize(
    ("read_word", "write_word"),
    [("Lesen", "Schreiben"), ("чтение", "Запись"), ("LIRE", "Écriture")],
)
def test_words_of_a_known_format_can_be_given(
    read: Importer, read_word: str, write_word: str
) -> None:
    lines = "".join(
        f"{128166372003061629 + n * 10**5},host,0,{word},{n * 4096},4096,1\n"
        for n, word in enumerate([read_word, write_word] * 100)
    )
    low, high = read_word.lower(), write_word.lower()
    # GIVEN words that a format does not know THEN each is asked for, also those that are left
    hint = f"--op {high}=OPERATION"
    assert f"{low}, {high}" in read.rejects(lines, "is msr but for its words", hint=hint)
    hint = f"--op {high}=OPERATION, such as"
    read.rejects(lines, "100 of 200 lines are wrong", hint=hint, operations=(f"{low}=read",))
    made = read(lines, operations=(f"{low}=read", f"{high}=write"))
    assert made.content["source"]["format"] == "msr"
    assert made.content["counts"]["operations"] == {"read": 100, "write": 100}


@pytest.mark.parametrize("given", ["get", "get=", "=read", "get=reed"])
def test_a_meaning_that_is_none(read: Importer, given: str) -> None:
    read.rejects(
        WORDS,
        f"--op {given}",
        error=UsageError,
        hint="discard",
        columns=COLUMNS,
        operations=(given,),
    )


def test_a_place_far_from_all_others_is_reported(read: Importer) -> None:
    text = lines_of("0,{place},4096,r,{seconds}\n", place=8)
    far = text.replace("0,8,4096,r,7.0", f"0,{10**13},4096,r,7.0")
    assert "lone_places" not in traces.warnings(read(text, form="spc"))
    said = traces.warnings(read(far, form="spc"))["lone_places"]
    assert f"line 71: 0,{10**13},4096,r,7.0" in said


def test_decimal_commas_are_refused(read: Importer) -> None:
    lines = lines_of("0,{place},4096,r,{seconds}\n")
    commas = "".join(",".join(line.rsplit(".", 1)) + "\n" for line in lines.splitlines())
    read.rejects(commas, "a comma for a point: 0,", hint="with a point", form="spc")
    read.rejects(commas, "a comma for a point: 0,", hint="with a point")
    assert len(traces.rows(read(commas, form="spc", forces_units=True))) == 300
    # AND with one more column, or in some of the lines
    more = commas.replace("\n", ",extra\n")
    read.rejects(more, "a comma for a point: 0,", hint="with a point")
    pairs = zip(lines.splitlines(), commas.splitlines(), strict=True)
    some = "".join(f"{pair[number % 3 == 0]}\n" for number, pair in enumerate(pairs))
    read.rejects(some, "a comma for a point: 0,", hint="with a point")
    # AND between semicolons they are points, in a known format and in columns of one's own
    semicolons = lines.replace(",", ";").replace(".", ",")
    assert read.rows(semicolons, forces_units=True) == read.rows(lines, forces_units=True)
    own = "".join(f"sda;R;{4096 * (n * 77 % 999)};4096;{n / 4:.2f}\n" for n in range(1, 300))
    message = read.rejects(own.replace(".", ","), "its columns may be: --columns device,op,offset")
    for name in ("--columns device,op,offset,length,time --delimiter ';'", "--unit time=s ("):
        assert name in message
    columns = "device,op,offset,length,time"
    points, with_commas = (
        read.rows(text, columns=columns, delimiter=";", units=("time=s",))
        for text in (own, own.replace(".", ","))
    )
    assert points == with_commas
    # AND that is told
    made = read(own.replace(".", ","), columns=columns, delimiter=";", units=("time=s",))
    (told,) = (one for one in made.info.inferences if one.what == "commas in numbers")
    assert (told.value, told.evidence) == ("decimal points", "0,25 in the first 64 KiB")
