"""Whole units against every set of them that fits, with what each takes and takes along."""

import itertools
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.recommend.test_units import time_ns
from tests.recommend.traces import BLOCK, recommended
from tests.simulate.placement_models import Block, Request
from tests.traces import partition, rows_of, written
from tracekit.model import unit_search
from tracekit.model.unit_charges import FILES_BYTES, moved_bytes
from tracekit.units import MIB

BLOCKS = MIB // BLOCK
OTHERS = "others"


@dataclass
class Unit:
    """A unit as a test knows it: its size, and the blocks that move with it."""

    name: str
    size: int
    blocks: set[Block]
    along: set[Block] = field(default_factory=set)


@dataclass
class Map:
    """A made trace, its units, and what a set of them takes of the NVM."""

    requests: list[Request]
    units: list[Unit]
    takes: Callable[[Sequence[Unit]], int]
    options: dict[str, Any]


def ceil(size: int, step: int) -> int:
    return -(-size // step)


def asked(draw: random.Random, places: dict[str, range], count: int) -> list[str]:
    return draw.choices([*places], weights=[draw.random() for _ in places], k=count)


def request(draw: random.Random, device: str, name: str, place: range) -> Request:
    role = name if name in ("journal", "swap") else "fs"
    sectors = 8 * draw.choice([1, 1, 2])
    at = 8 * draw.choice(place[:-1])
    operation = draw.choice(["read", "write", "write"])
    return Request(role, at, sectors, operation, is_meta=name == "meta", device=device)


def votes(names: Sequence[str], requests: Sequence[Request]) -> Iterator[tuple[str, Block]]:
    """Yield with which unit each block of metadata and journal goes, by the requests before."""
    cast: dict[Block, list[str]] = {}
    last, units = "", sorted({one for one in names if one.startswith("/")})
    for name, one in zip(names, requests, strict=True):
        if name not in ("meta", "journal"):
            last = name
        elif last:
            for block in one.blocks:
                cast.setdefault(block, []).append(last)
    for block, given in cast.items():
        winner = min([*units, OTHERS], key=lambda name: (-given.count(name), name == OTHERS, name))
        if winner != OTHERS:
            yield winner, block


def files_map(seed: int, folder: Path, kind: str) -> Map:
    """Files or directories of some MiB, metadata, a journal, and files that no table has."""
    draw = random.Random(seed)  # noqa: S311 - a repeatable trace
    files = {f"/d{n}": draw.randint(4, 6 * BLOCKS) for n in range(draw.randint(2, 5))}
    places = {name: range(8 * BLOCKS * n, 8 * BLOCKS * n + 4) for n, name in enumerate(files)}
    end = "/f" if kind == "directory" else ""
    rows = [f"{name}{end},sda,{8 * places[name].start},{8 * size}" for name, size in files.items()]
    lines = ["path,device,first_sector,sectors", *rows, ""]
    beyond = 8 * BLOCKS * len(files)
    places |= {"meta": range(beyond, beyond + 4), OTHERS: range(beyond + 8, beyond + 12)}
    files["journal"] = draw.randint(1, 8) * BLOCKS
    places["journal"] = range(beyond + 64, beyond + 70)
    names = asked(draw, places, 60)
    requests = [request(draw, "sda", name, places[name]) for name in names]
    layout = [
        partition("sda", 1, "fs", range(1 << 20)),
        partition(
            "sda", 1, "journal", range(8 * beyond + 512, 8 * (beyond + 64 + files["journal"]))
        ),
    ]
    layout[0]["name"], layout[1]["name"] = "sda1", "sda1 journal"
    known = {name: Unit(name, size * BLOCK, set()) for name, size in files.items()}
    for name, one in zip(names, requests, strict=True):
        if name in known:
            known[name].blocks.update(one.blocks)
    for name, block in votes(names, requests):
        known[name].along.add(block)
    table = written(folder / "files.csv", "\n".join(lines))
    options = {"unit": kind, "files": table, "info": {"layout": layout}}
    return Map(requests, [one for one in known.values() if one.blocks], taken_by_files, options)


def taken_by_files(chosen: Sequence[Unit]) -> int:
    moved = [one for one in chosen if one.name != "journal"]
    bytes_ = [one.size + max(ceil(one.size, 10), len(one.along) * BLOCK) for one in moved]
    whole = [max(5, ceil(one.size, MIB)) * MIB for one in chosen if one.name == "journal"]
    parts = bool(moved) + len(whole)
    return sum(bytes_) + (8 * MIB if moved else 0) + sum(whole) + divided(parts)


def divided(parts: int) -> int:
    """Return what a partition table and parts of whole MiB take."""
    return (2 + parts) * MIB if parts > 1 else 0


def extents_map(seed: int) -> Map:
    """Extents of a logical volume, or of a plain disk."""
    draw = random.Random(seed)  # noqa: S311 - a repeatable trace
    device = "dm-0" if seed % 2 else "sda"
    count = draw.randint(2, 6)
    places = {f"x{n}": range(BLOCKS * n, BLOCKS * n + 5) for n in range(count)}
    names = asked(draw, places, 60)
    requests = [request(draw, device, name, places[name]) for name in names]
    known = {name: Unit(name, MIB, set()) for name in places}
    for name, one in zip(names, requests, strict=True):
        known[name].blocks.update(one.blocks)
    units = [one for one in known.values() if one.blocks]
    shared = 4 * MIB if device == "dm-0" else 0
    return Map(
        requests,
        units,
        lambda chosen: len(chosen) * MIB + (shared if chosen else 0),
        {"unit": "extent=1MiB"},
    )


def roles_map(seed: int) -> Map:
    """A file system with its journal in it, and swap beside it."""
    draw = random.Random(seed)  # noqa: S311 - a repeatable trace
    device = "dm-0" if seed % 2 else "sda"
    fs = range(draw.randint(2, 8) * BLOCKS)
    inner = range(BLOCKS, BLOCKS + draw.randint(6, BLOCKS - 8))
    swap = draw.randint(1, 4) * BLOCKS
    places = {"fs": fs[:6], "journal": inner[:6], "swap": range(6)}
    names = asked(draw, places, 60)
    requests = [
        request(draw, "sdb" if name == "swap" else device, name, places[name]) for name in names
    ]
    layout = [
        partition(device, 1, "fs", range(8 * len(fs))),
        partition(device, 1, "journal", range(8 * inner.start, 8 * inner.stop)),
        partition("sdb", 1, "swap", range(8 * swap)),
    ]
    layout[0]["name"], layout[1]["name"] = device, f"{device} journal"
    sizes = {"fs": len(fs), "journal": len(inner), "swap": swap}
    known = {name: Unit(name, size * BLOCK, set()) for name, size in sizes.items()}
    for name, one in zip(names, requests, strict=True):
        known[name].blocks.update(one.blocks)
    known["fs"].along = set(known["journal"].blocks)
    units = [one for one in known.values() if one.blocks]
    whole = {
        "fs": known["fs"].size + (4 * MIB if device == "dm-0" else 0),
        "journal": max(5, ceil(known["journal"].size, MIB)) * MIB,
        "swap": known["swap"].size,
    }
    return Map(
        requests,
        units,
        lambda chosen: sum(whole[one.name] for one in chosen) + divided(len(chosen)),
        {"unit": "role", "info": {"layout": layout}},
    )


KINDS = ["file", "directory", "extent", "role"]


def make_map(seed: int, folder: Path, kind: str) -> Map:
    folder.mkdir(exist_ok=True)
    if kind in ("file", "directory"):
        return files_map(seed, folder, kind)
    return extents_map(seed) if kind == "extent" else roles_map(seed)


def subsets(units: Sequence[Unit]) -> Iterator[tuple[Unit, ...]]:
    sizes = range(len(units) + 1)
    return itertools.chain.from_iterable(itertools.combinations(units, size) for size in sizes)


def moved(chosen: Sequence[Unit]) -> set[Block]:
    return {block for one in chosen for block in one.blocks | one.along}


def check_best(made: Map, folder: Path, capacity: int) -> bool:
    """Compare the answer with the best of all sets that fit; return whether something is placed."""
    found = recommended(folder / "t", made.requests, capacities_bytes=(capacity,), **made.options)
    rows = rows_of(folder / "t/simulations/units.parquet")
    places = {row["name"]: row["is_placed"] for row in rows}
    is_extent = made.options["unit"].startswith("extent")
    names = [f"extent {one.name[1:]}" if is_extent else one.name for one in made.units]
    chosen = [
        one
        for one, name in zip(made.units, names, strict=True)
        if any(is_in and key.rstrip("/").endswith(name) for key, is_in in places.items())
    ]
    # THEN what is placed is not more than the capacity, and takes what an independent model says
    answer = found["units"]
    assert answer["placed_count"] == len(chosen)
    assert answer["taken_bytes"] == made.takes(chosen) <= capacity
    assert answer["elapsed_ns"] == time_ns(made.requests, moved(chosen))
    assert answer["along_bytes"] == BLOCK * len(
        moved(chosen) - {block for one in chosen for block in one.blocks}
    )
    # AND nothing else that fits takes less time
    fitting = [one for one in subsets(made.units) if made.takes(one) <= capacity]
    assert answer["elapsed_ns"] == min(time_ns(made.requests, moved(one)) for one in fitting)
    assert (answer["reason"] == "") == bool(chosen)
    return bool(chosen)


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_is_the_best_of_all_sets_that_fit(kind: str, tmp_path: Path) -> None:
    placed = 0
    for seed in range(8):
        folder = tmp_path / str(seed)
        made = make_map(seed, folder, kind)
        draw = random.Random(seed)  # noqa: S311 - a repeatable trace
        capacity = int(made.takes(made.units) * draw.uniform(0.2, 1.05)) // BLOCK * BLOCK
        placed += check_best(made, folder, capacity)
    assert placed >= 4


@pytest.mark.parametrize("kind", ["directory", "role"])
def test_sets_that_need_a_pass_each_are_as_good(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a trace that is not kept, as a long one
    monkeypatch.setattr(unit_search, "can_time_sets", lambda _: False)
    made = make_map(2, tmp_path, kind)
    assert len(made.units) in (3, 4)
    assert check_best(made, tmp_path, made.takes(made.units) * 3 // 4)


def test_each_set_of_few_of_many_units_has_its_own_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN passes of three points, and six units of which not all fit
    monkeypatch.setattr(unit_search, "can_time_sets", lambda _: False)
    monkeypatch.setattr(unit_search, "POINTS", 3)
    monkeypatch.setattr(unit_search, "MOST_CHAINS", 99)
    timed = unit_search._times_by_chains
    compared = []

    def both(*given: Any) -> list[int]:
        trace, units, sets = given
        times_ps = timed(*given)
        for one, time_ps in zip(sets, times_ps, strict=False):
            order = np.array(one, np.int64)
            chain = unit_search.time_chain(trace, units, order=order, exact=len(one))
            compared.append((time_ps, int(chain.times_ps[-1])))
        return times_ps

    monkeypatch.setattr(unit_search, "_times_by_chains", both)
    made = files_map(11, tmp_path, "file")
    smallest = sorted(made.units, key=lambda one: made.takes([one]))[:2]
    capacity = made.takes(smallest)
    recommended(tmp_path / "t", made.requests, capacities_bytes=(capacity,), **made.options)
    # THEN what a pass says of a set is what one for it alone says
    assert len(made.units) == 6
    assert len(compared) > 3  # none, either, both
    assert all(one == other for one, other in compared)


def test_exchanges_come_near_to_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN more sets than may be tried
    monkeypatch.setattr(unit_search, "MOST_SETS", 60)
    off = []
    for seed in range(100, 106):
        made = extents_map(seed)
        capacity = made.takes(made.units[: len(made.units) // 2])
        options = {"capacities_bytes": (capacity,), **made.options}
        found = recommended(tmp_path / str(seed), made.requests, **options)
        fitting = [one for one in subsets(made.units) if made.takes(one) <= capacity]
        least = min(time_ns(made.requests, moved(one)) for one in fitting)
        off.append(found["units"]["elapsed_ns"] / least - 1)
    assert max(off) < 0.02


@pytest.mark.skipif(shutil.which("mke2fs") is None, reason="mke2fs (e2fsprogs) is not installed")
@pytest.mark.parametrize("mib", [1, 7, 32, 64, 130, 300, 470, 700, 1024, 2100, 9000, 20_000])
def test_files_have_room_in_an_ext4_of_what_they_are_charged(mib: int, tmp_path: Path) -> None:
    charged = FILES_BYTES + int(moved_bytes(np.array([mib * MIB]), np.array([0]))[0])
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(charged)
    # WHEN it is made as the script does
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", image], check=True)
    words, english = ["dumpe2fs", "-h", str(image)], {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=english)
    lines = (line.partition(":") for line in done.stdout.splitlines())
    values = {name: value.strip() for name, _, value in lines}
    assert values["Reserved block count"] == "0"
    assert int(values["Free blocks"]) * int(values["Block size"]) >= 1.01 * mib * MIB
