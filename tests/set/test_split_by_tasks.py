"""A set imported by tasks, beside the import of the same files on one machine: byte for byte."""

import gzip
import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.import_ import damages
from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.fleet.split import import_set
from tracekit.fleet.split_by_tasks import import_set_by_tasks
from tracekit.readers import parsed, reading
from tracekit.readers.units import ImportOptions

BLOCK = 1 << 17
ALIBABA = ImportOptions(form="alibaba")


class Here:
    """Workers of this process, which get what they work on as bytes, in any order.

    Each does its work twice, as after the loss of a worker; what it returned first is lost.
    """

    def __init__(self, at_a_time: int = 2) -> None:
        self.at_a_time = at_a_time
        self.items: list[Any] = []

    def each(
        self,
        work: Callable[[Any], Any],
        items: Sequence[Any],
        *,
        on_done: Callable[[int], None] = lambda _number: None,
    ) -> list[Any]:
        self.items += items
        order = [*range(len(items))]
        random.Random(1).shuffle(order)  # noqa: S311 - any order
        found = {}
        for number in order:
            packed = pickle.dumps((work, items[number]))
            for _attempt in range(2):
                again, item = pickle.loads(packed)  # noqa: S301 - our own
                packed_answer = pickle.dumps(again(item))
            found[number] = pickle.loads(packed_answer)  # noqa: S301 - our own
            on_done(number)
        return [found[number] for number in range(len(items))]

    @contextmanager
    def start(self, _log: Path) -> Iterator["Here"]:
        yield self


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CHUNK_BYTES", BLOCK // 2)
    monkeypatch.setattr(parsed, "PART_BLOCKS", 2)


def files(place: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in place.rglob("*")
        if path.is_file()
    }


def outcome(call: Callable[[], object], place: Path) -> object:
    """Return the content of all files of a set, or what is said in its place."""
    try:
        call()
    except TracekitError as error:
        assert [*place.parent.glob(f".{place.name}*")] == []
        return type(error), str(error), error.hint
    return files(place)


def same(sources: Sequence[Path], options: ImportOptions, place: Path) -> tuple[object, Here]:
    """Import both ways; return what came of it, the same of both, and who did the tasks."""
    workers = Here()
    here, there = place / "here", place / "there"
    expected = outcome(partial(import_set, sources, here, options=options), here)
    by_tasks = partial(import_set_by_tasks, sources, there, options=options, start=workers.start)
    assert outcome(by_tasks, there) == expected
    return expected, workers


def lines_of(rows: int, *, volumes: int = 7, seed: int = 1) -> list[str]:
    """Return requests of Alibaba's format, of volumes of different sizes."""
    chance, time_us, found = random.Random(seed), 10**15, []  # noqa: S311 - a fixed sequence
    for _ in range(rows):
        time_us += chance.randrange(1, 900)
        volume = min(chance.randrange(volumes), chance.randrange(volumes))
        place, blocks = chance.randrange(1 << 20) * 4096, chance.choice((1, 2, 16))
        found.append(f"vol{volume},{chance.choice('RW')},{place},{blocks * 4096},{time_us}\n")
    return found


def test_parts_of_a_text_make_the_same_set(tmp_path: Path) -> None:
    # GIVEN a text of several parts, with wrong lines in two of them, and no end of its last line
    lines = lines_of(20_000)
    lines[3000] = "vol1,R,x,y,z\n"
    lines[15_000] = "vol9,Q,1,2,3\n"
    source = tmp_path / "volumes.csv"
    source.write_text("".join(lines).rstrip("\n"))
    assert source.stat().st_size > 6 * BLOCK
    # THEN all files of the set are the same, of an import by tasks, too
    found, workers = same([source], ALIBABA, tmp_path)
    assert isinstance(found, dict)
    assert {f"vol{n}/requests.parquet" for n in range(7)} < {*found}
    assert b"2 lines were wrong" in found["vol0/trace.json"]
    # AND several parts were decoded and several groups joined
    parts = [one for one in workers.items if isinstance(one, parsed.Part)]
    assert len([one for one in parts if one.ends]) > 3
    assert len(workers.items) - len(parts) > 3


def test_requests_out_of_order_are_put_in_order(tmp_path: Path) -> None:
    # GIVEN volumes one after the other, as of several recorders, whose times are dates
    lines = sorted(lines_of(12_000), key=lambda line: line.partition(",")[0])
    source = tmp_path / "volumes.csv"
    source.write_text("".join(lines))
    assert isinstance(same([source], ALIBABA, tmp_path / "far")[0], dict)
    # AND lines that stand a little behind later ones
    lines = lines_of(12_000)
    for at in range(50, 11_000, 97):
        lines[at], lines[at + 30] = lines[at + 30], lines[at]
    source.write_text("".join(lines))
    assert isinstance(same([source], ALIBABA, tmp_path / "near")[0], dict)


def test_numbers_far_from_all_others_are_left_out(tmp_path: Path) -> None:
    lines = lines_of(12_000)
    lines[7000] = "vol1,R,4096,4096,99999999999999999\n"
    lines[9000] = "vol1,R,4611686018427387000,4096,1000002000000000\n"
    source = tmp_path / "volumes.csv"
    source.write_text("".join(lines))
    found, _ = same([source], ALIBABA, tmp_path)
    assert isinstance(found, dict)
    assert b"strays" in found["vol1/trace.json"]


@pytest.mark.parametrize("join", ["refuse", "sequence", "overlay"])
def test_a_clock_that_starts_again(tmp_path: Path, join: Any) -> None:
    source = tmp_path / "volumes.csv"
    source.write_text("".join([*lines_of(9000), *lines_of(7000, seed=2)]))
    options = ImportOptions(form="alibaba", join=join)
    found, _ = same([source], options, tmp_path)
    assert isinstance(found, tuple if join == "refuse" else dict)


def test_several_files_some_of_them_compressed(tmp_path: Path) -> None:
    # GIVEN a log that was rotated, one file of it empty
    lines, sources = lines_of(16_000), []
    for number, first in enumerate((0, 4000, 4000, 11_000)):
        text = "".join(lines[first : (4000, 4000, 11_000, 16_000)[number]]).encode()
        sources.append(tmp_path / f"log.{number}{'.gz' if number == 2 else ''}")
        sources[-1].write_bytes(gzip.compress(text) if number == 2 else text)
    found, workers = same(sources, ALIBABA, tmp_path)
    assert isinstance(found, dict)
    assert b"log.2.gz" in found["vol0/trace.json"]
    whole = [one for one in workers.items if isinstance(one, parsed.Part) and not one.ends]
    assert {one.file for one in whole if not one.is_digest} == {1, 3}
    # WHEN the compressed one is damaged, THEN it is named as on one machine
    packed = bytearray(sources[2].read_bytes())
    packed[len(packed) // 2] ^= 255
    sources[2].write_bytes(packed)
    error, _ = same(sources, ALIBABA, tmp_path / "damaged")
    assert isinstance(error, tuple)
    assert str(sources[2]) in error[1]
    # AND --salvage keeps the rest of it
    salvaged, _ = same(sources, ImportOptions(form="alibaba", salvages=True), tmp_path / "rest")
    assert isinstance(salvaged, dict)


def test_texts_of_ones_own(tmp_path: Path) -> None:
    # GIVEN lines with processes and response times, behind a mark of UTF-8 and a header
    rows = [line.rstrip().split(",") for line in lines_of(12_000)]
    text = "".join(
        f"{int(row[4]) / 1e6:.6f};{row[0]};{row[1]};{row[2]};{row[3]};{n % 977};p{n % 5};{n % 9}\n"
        for n, row in enumerate(rows)
    )
    source = tmp_path / "own.csv"
    source.write_text("\ufeff# a header\n" + text)
    words = "time,device,op,offset,length,response,process,pid"
    units = ("time=s", "response=us")
    options = ImportOptions(columns=words, delimiter=";", units=units)
    assert isinstance(same([source], options, tmp_path / "columns")[0], dict)
    # AND the same by a regular expression
    names = words.split(",")
    pattern = ";".join(f"(?P<{name}>[^;]+)" for name in names)
    options = ImportOptions(regex=pattern, units=units)
    assert isinstance(same([source], options, tmp_path / "regex")[0], dict)


def test_what_cannot_be_divided_is_read_here(tmp_path: Path) -> None:
    # GIVEN places within files, which are numbered as they come, WHEN a set is made of them
    head = "op_time,block_id,block_id_size,io_size,io_offset,user_name,user_namespace,op_name"
    lines = [f"{head},op_count,host_name,rs_shard_id\n"]
    lines += [f"{10**9 + n},{n % 7},8388608,4096,{n % 90 * 4096},u,n,getChunkData.Permanent,1,h,0\n"
              for n in range(1000)]  # fmt: skip
    source = tmp_path / "tectonic.csv"
    source.write_text("".join(lines))
    found, workers = same([source], ImportOptions(), tmp_path)
    # THEN no workers start
    assert isinstance(found, dict)
    assert workers.items == []


def test_a_line_longer_than_a_block(tmp_path: Path) -> None:
    lines = lines_of(9000)
    lines[5000] = "x" * 2 * BLOCK + "\n"
    source = tmp_path / "volumes.csv"
    source.write_text("".join(lines))
    assert isinstance(same([source], ALIBABA, tmp_path)[0], dict)


def test_a_file_that_is_still_written(tmp_path: Path) -> None:
    source = tmp_path / "volumes.csv"
    source.write_text("".join(lines_of(9000)))

    class Slow(Here):
        def each(self, work: Any, items: Any, **more: Any) -> list[Any]:
            found = super().each(work, items, **more)
            with source.open("a") as file:
                file.write("vol1,R,0,4096,99\n")
            return found

    with pytest.raises(InputError, match="it changed while it was read"):
        import_set_by_tasks(
            [source], tmp_path / "set", options=ALIBABA, start=Slow().start
        )  # fmt: skip
    assert [*tmp_path.iterdir()] == [source]


@pytest.mark.parametrize("error", [KeyboardInterrupt, UsageError])
def test_what_ends_it_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    source = tmp_path / "volumes.csv"
    source.write_text("".join(lines_of(9000)))

    class Ended(Here):
        def each(self, work: Any, items: Any, **more: Any) -> list[Any]:
            found = super().each(work, items, **more)
            if isinstance(items[0], int):
                raise error("by the user")
            return found

    with pytest.raises(error):
        import_set_by_tasks([source], tmp_path / "set", options=ALIBABA, start=Ended().start)
    assert [*tmp_path.iterdir()] == [source]


@pytest.mark.slow
@pytest.mark.parametrize("name", damages.FORMATS)
def test_damaged_texts_are_judged_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # GIVEN each kind of damage to a text of each format, of several parts
    monkeypatch.setattr(damages, "REQUESTS", 9000)
    (text,) = (one for one in damages.texts() if one.name == name)
    kinds = set[type]()
    for damage, _, content in damages.damaged(text, 1):
        source = tmp_path / damage / "trace"
        source.parent.mkdir()
        source.write_bytes(content)
        # THEN what is made of it, or said of it, is the same
        kinds.add(type(same([source], ImportOptions(), source.parent)[0]))
        source.unlink()
    assert kinds == {dict, tuple}
