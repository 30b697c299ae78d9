"""Placement of whole units: extents, roles, files and directories."""

import csv
import itertools
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import invoke, refused, succeed
from tests.recommend.traces import BLOCK, DEVICES, US, oltp, recommended
from tests.simulate.placement_models import Block, Request, model, write_trace
from tests.traces import partition, rows_of, written
from tracekit.devices import load_profiles
from tracekit.errors import InputError, UsageError
from tracekit.model.placement import to_ns
from tracekit.replay.placed import place_answer
from tracekit.store import TraceFolder
from tracekit.tables import ROLES, UNITS

EXTENT = 4 * BLOCK
GNUPLOT = Path(__file__).resolve().parents[2] / "sample-traces" / "gnuplot"
WORDS = ("--base", "disk", "--nvm", "nvm", "--profiles", DEVICES)


def mixed(seed: int) -> list[Request]:
    """Return 60 requests of any role within 6 extents of 4 blocks on two disks, some flushes."""
    rng = random.Random(seed)  # noqa: S311 - a repeatable trace
    requests = []
    for _ in range(60):
        role = rng.choice(["fs", "journal", "unknown"])
        block = min(int(rng.expovariate(0.12)), 10)
        operation = rng.choice(["read", "write", "write", "flush"])
        sectors = 8 * rng.randint(1, 2) if operation != "flush" else 0
        device = rng.choice(["sda", "sdb"])
        # A role has blocks of its own, so that each block has one.
        at = 8 * (block + 12 * ["fs", "journal", "unknown"].index(role))
        requests.append(Request(role, at, sectors, operation, device=device))
    return requests


def time_ns(requests: list[Request], on_nvm: set[Block]) -> int:
    """Charge a trace by the model that the tests have."""
    disk, nvm = (load_profiles(DEVICES)[name] for name in ("disk", "nvm"))
    return int(to_ns(model(requests, on_nvm, (disk, nvm)).service))


def blocks_of(rows: list[dict[str, Any]]) -> set[Block]:
    """Return the blocks of extents in the table."""
    return {
        (row["device"], row["first_block"] + number)
        for row in rows
        for number in range(row["bytes"] // BLOCK)
    }


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("extents", [1, 2])
def test_a_set_of_extents_costs_what_the_model_says_and_few_are_better(
    seed: int, extents: int, tmp_path: Path
) -> None:
    requests = mixed(seed)
    capacity = extents * EXTENT + BLOCK
    result = recommended(tmp_path, requests, unit=f"extent={EXTENT}B", capacities_bytes=(capacity,))
    found, rows = result["units"], rows_of(tmp_path / "simulations/units.parquet")
    placed = [row for row in rows if row["is_placed"]]
    # THEN the time is that of the placed extents, whole, by an independent model
    assert found["elapsed_ns"] == time_ns(requests, blocks_of(placed))
    assert found["base_elapsed_ns"] == time_ns(requests, set())
    assert found["bytes"] == len(placed) * EXTENT <= capacity
    # AND all sets of extents that fit hardly do better
    sets = itertools.chain.from_iterable(
        itertools.combinations(rows, size) for size in range(extents + 1)
    )
    least = min(time_ns(requests, blocks_of(list(one))) for one in sets)
    assert least <= found["elapsed_ns"] <= 1.05 * least
    assert sum(row["blocks"] for row in rows) * BLOCK == result["footprint_bytes"]


def test_units_of_different_sizes_fill_the_capacity_best(tmp_path: Path) -> None:
    # GIVEN files of 6, 5 and 5 blocks, of which the first saves most per byte, and room for 10 in
    # a file system
    sizes, touches = {"a": 6, "b": 5, "c": 5}, {"a": 13, "b": 10, "c": 10}
    files, requests, at = ["path,device,first_sector,sectors"], [], 0
    for name, size in sizes.items():
        files.append(f"/{name},sda,{8 * at},{8 * size}")
        requests += [Request("fs", 8 * at)] * touches[name]
        at += size
    strided = [one for three in zip(*[iter(requests)] * 3, strict=False) for one in three]
    table = written(tmp_path / "files.csv", "\n".join(files) + "\n")
    result = recommended(
        tmp_path / "t",
        strided,
        unit="file",
        files=table,
        capacities_bytes=((8 << 20) + 11 * BLOCK,),
    )
    # THEN both smaller ones are placed, which no order by savings per byte gives
    assert [one["name"] for one in result["units"]["placed"]] == ["/b", "/c"]
    assert result["units"]["outside_bytes"] == 0


def test_units_begin_with_the_shares_of_the_bound(tmp_path: Path) -> None:
    # GIVEN a sample whose most accessed extents are read in order, at little cost
    words = ("--unit", "extent=16KiB", "--capacity", "2MiB", "--base", "hdd-7200")
    succeed("parse", GNUPLOT, "-o", tmp_path / "t")
    succeed("classify", tmp_path / "t")
    succeed("recommend", tmp_path / "t", "--nvm", "ssd-optane", *words)
    found = json.loads((tmp_path / "t" / "recommendation.json").read_text())
    # THEN extents are found that save more than the 2.8 % of the search that began with accesses
    assert found["units"]["gain_ratio"] > 0.045


def test_files_with_names_elsewhere_are_left_out_and_said(tmp_path: Path) -> None:
    # GIVEN files with two names in one directory and in two, and a row of another device
    text = "path,device,first_sector,sectors\n"
    for path, device, first in (
        *(("/a/x", "sda", 0), ("/a/y", "sda", 0), ("/a/x", "sda", 80), ("/a/y", "sda", 80)),
        *(("/a/z", "sda", 160), ("/b/z", "sda", 160), ("/b/own", "sda", 240), ("/c", "sdz", 0)),
    ):
        text += f"{path},{device},{first},8\n"
    table = written(tmp_path / "files.csv", text)
    requests = [Request("fs", 80 * one) for one in (0, 1, 2, 3)] * 9
    layout = {"layout": [partition("sda", 1, "fs", range(800))]}
    for unit, names, linked in (("file", ["/b/own"], 2), ("directory", ["/a/", "/b/"], 1)):
        options = {"files": table, "capacities_bytes": (1 << 30,), "info": layout}
        found = recommended(tmp_path / unit, requests, unit=unit, **options)
        # THEN what would move with one name only stays, and that is counted
        assert sorted(one["name"] for one in found["units"]["placed"]) == names
        assert (found["units"]["linked_files"], found["units"]["skipped_rows"]) == (linked, 1)
        some = f"{linked} {'file' if linked == 1 else 'files'} with a second name elsewhere."
        assert f" Left out: 1 row of other devices and {some}" in found["headline"][0]
    # AND an extent that no file system of the device can have is refused
    write_trace(tmp_path / "t", requests, layout=layout["layout"])
    beyond = written(tmp_path / "x.csv", "path,device,first_sector,sectors\n/a,sda1,796,8\n")
    words = ("--unit", "file", "--files", beyond, "--capacity", "1GiB")
    wanted = "row 2: /a ends at sector 804 of sda, whose layout ends at 800"
    refused(invoke("recommend", tmp_path / "t", *WORDS, *words), wanted, error=InputError)


def test_nothing_is_placed_where_no_unit_fits(tmp_path: Path) -> None:
    result = recommended(tmp_path, oltp(), unit="role", capacities_bytes=(BLOCK,))
    assert result["units"]["placed_count"] == 0
    assert result["units"]["elapsed_ns"] == result["answer"]["base_elapsed_ns"]
    # THEN the reason is said: a journal is no smaller
    assert result["headline"][0] == (
        "With 4 KiB of nvm and only whole roles, leave everything on the base device: none of 2"
        " fits, the least, file system, takes 1.6 MiB as it is carried out."
    )
    # AND what parts of roles would take is not called the runner-up of whole ones
    assert "runner-up" not in [row["what"] for row in result["rows"]]


def test_a_role_takes_what_the_layout_gives_it(tmp_path: Path) -> None:
    # GIVEN a file system of 1.5 GiB with a journal of 2 MiB in it, of which 300 blocks are touched,
    # and which takes the 5 MiB of the smallest external one
    whole = partition("sda", 1, "fs", range(16 << 11))
    inner = partition("sda", 1, "journal", range(1 << 20, (1 << 20) + (2 << 11)))
    whole["sectors"] = 3 << 20
    info = {"layout": [whole, inner]}
    for capacity, placed in ((5 << 20, ["journal"]), ((5 << 20) - 1, [])):
        result = recommended(tmp_path, oltp(), unit="role", capacities_bytes=(capacity,), info=info)
        assert [one["name"] for one in result["units"]["placed"]] == placed
    rows = rows_of(tmp_path / "simulations/units.parquet")
    assert {row["name"]: (row["bytes"], row["along_bytes"]) for row in rows} == {
        "fs": (3 << 29, 300 * BLOCK),
        "journal": (2 << 20, 0),
    }


FILES = [
    # path, blocks from the start of sda1, which is at block 100
    ("/srv/db/base/1", 0, 4),
    ("/srv/db/base/2", 4, 4),
    ("/srv/db/it's a log/x", 8, 4),
    ("/srv/db/top", 12, 4),
    ("/srv/other", 16, 400),
]


def files_table(file: Path, device: str = "sda1") -> Path:
    """Write the table of FILES, as CSV or JSON."""
    rows = [
        {"path": path, "device": device, "first_sector": 8 * first, "sectors": 8 * blocks}
        for path, first, blocks in FILES
    ]
    if file.suffix == ".json":
        return written(file, json.dumps(rows))
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return file


def votes_of(names: list[str], requests: list[Request]) -> dict[Block, list[str]]:
    """Return after which directories each block of metadata and journal was requested."""
    votes: dict[Block, list[str]] = {}
    last = ""
    for name, request in zip(names, requests, strict=True):
        if name in ("/a", "/b", "loose"):
            last = name
        elif name != "other" and last:
            votes.setdefault(request.blocks[0], []).append(last)
    return votes


def replayed_on_nvm(folder: Path) -> set[Block]:
    """Return the blocks that a replay of the placed units has on NVM, for any role."""
    moved = place_answer(TraceFolder(folder), "units").moved
    assert moved.keys() == {("sda", role) for role in ROLES}
    return {("sda", block) for block in moved["sda", "fs"].blocks.tolist()}


def test_an_answer_without_units_names_the_option(tmp_path: Path) -> None:
    recommended(tmp_path / "t", oltp()[:50])
    with pytest.raises(UsageError, match="the answer is not by units") as caught:
        place_answer(TraceFolder(tmp_path / "t"), "units")
    assert caught.value.hint.startswith("run recommend with --unit")


@pytest.mark.parametrize("seed", range(4))
def test_metadata_and_journal_go_with_the_files_requested_before(seed: int, tmp_path: Path) -> None:
    # GIVEN two directories, metadata, a journal and files that no table has in one file system, and
    # a file system beside it
    rng = random.Random(seed)  # noqa: S311 - a repeatable trace
    places = {"/a": range(16), "/b": range(16, 32), "meta": range(60, 70), "journal": range(90, 96)}
    places |= {"other": range(200, 210), "loose": range(40, 50)}
    layout = [
        partition("sda", 1, "fs", range(800)),
        partition("sda", 1, "journal", range(90 * 8, 96 * 8), name="sda1 journal"),
        partition("sda", 2, "fs", range(1600, 2400)),
    ]
    table = written(
        tmp_path / "files.csv",
        "path,device,first_sector,sectors\n/a/x,sda,0,128\n/b/x,sda,128,128\n",
    )
    names = rng.choices([*places], k=200)
    roles = ["journal" if name == "journal" else "fs" for name in names]
    requests = [
        Request(role, 8 * rng.choice(places[name]), is_meta=name == "meta")
        for role, name in zip(roles, names, strict=True)
    ]
    options = {"files": table, "capacities_bytes": ((8 << 20) + 32 * BLOCK,)}
    options["info"] = {"layout": layout}
    result = recommended(tmp_path / "t", requests, unit="directory", **options)
    # THEN what goes along is what the majority of a block's requests came after
    votes = votes_of(names, requests)
    placed = {one["name"].rstrip("/") for one in result["units"]["placed"]}
    assert placed in ({"/a"}, {"/b"}, {"journal"})
    along = {
        block
        for block, names_ in votes.items()
        if min("/a", "/b", "loose", key=lambda one: (-names_.count(one), one)) in placed
    }
    moved = {("sda", block) for name in placed for block in places[name]}
    assert result["units"]["along_bytes"] == len(along) * BLOCK > 0
    assert result["units"]["elapsed_ns"] == time_ns(requests, moved | along)
    # AND a replay of these units moves the blocks that were touched of both, and no others
    touched = {block for request in requests for block in request.blocks}
    assert replayed_on_nvm(tmp_path / "t") == touched & (moved | along)
    assert "of metadata and journal go along" in result["headline"][0]


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_directories_are_moved_whole_and_files_above_them_alone(
    suffix: str, tmp_path: Path
) -> None:
    # GIVEN files of a partition, a block of each touched once, and a journal
    layout = [partition("sda", 1, "fs", range(800, 800 + 8 * 1000))]
    requests = [Request("fs", 800 + 8 * first) for _, first, _ in FILES for _ in range(2)]
    requests += [Request("journal", 80000), Request("fs", 8 * 90)]
    table = files_table(tmp_path / f"files.{suffix}")
    write_trace(tmp_path / "t", requests, layout=layout)
    words = ("--unit", "directory", "--files", table, "--capacity", "20MiB", "--json")
    result = json.loads(succeed("recommend", tmp_path / "t", *WORDS, *words).stdout)
    # THEN the units are whole directories, files beside directories, and the journal
    rows = {row["name"]: row for row in rows_of(tmp_path / "t/simulations/units.parquet")}
    assert {name: (row["unit"], row["bytes"] // BLOCK) for name, row in rows.items()} == {
        "/srv/db/base/": ("directory", 8),
        "/srv/db/it's a log/": ("directory", 4),
        "/srv/db/top": ("file", 4),
        "/srv/other": ("file", 400),
        "journal": ("role", 1),
    }
    assert rows["/srv/db/base/"]["first_block"] == 100
    # AND what is in no unit is said, as all that does not fit stays where it is
    assert result["units"]["outside_bytes"] == BLOCK
    # AND the files take a file system of 8 MiB, a tenth more, and the journal the least there is
    taken = (8 << 20) + (8 + 4 + 4 + 400) * BLOCK + 3277 + 1639 + 1639 + 163840 + (5 << 20)
    taken += 4 << 20  # as both are parts of one device
    assert (result["units"]["placed_count"], result["units"]["taken_bytes"]) == (5, taken)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("path,device\n/a,sda\n", ["row 1", "first_sector, sectors"]),
        ("path,device,first_sector,sectors\n/a,sda,x,8\n", ["row 2", "first_sector is 'x'"]),
        ("path,device,first_sector,sectors\n/a,sda,0,0\n", ["row 2", "0 sectors"]),
        ("path,device,first_sector,sectors\n,sda,0,8\n", ["row 2", "path or device"]),
        ("path,device,first_sector,sectors\n-rf,sda,0,8\n", ["row 2", "'-rf'", "absolute path"]),
        (
            "path,device,first_sector,sectors\n/a,sda,0,9\n/b,sda,8,8\n",
            ["row 3", "sector 8 of sda", "/a has too (row 2)"],
        ),
        ("path,device,first_sector,sectors\n/a,sdq,0,8\n", ["no row is of a device"]),
        ("path,device,first_sector,sectors\n", ["no row is of a device"]),
    ],
)
def test_wrong_tables_of_files_are_refused(text: str, words: list[str], tmp_path: Path) -> None:
    table = written(tmp_path / "files.csv", text)
    write_trace(tmp_path / "t", oltp()[:20])
    result = invoke("recommend", tmp_path / "t", *WORDS, "--unit", "file", "--files", table)
    refused(result, "files.csv", *words, error=InputError)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--unit", "page"], "--unit page"),
        (["--unit", "file"], "--files"),
        (["--unit", "extent=5000B"], "not a multiple of 4 KiB"),
        (["--unit", "extent=0"], "not a multiple of 4 KiB"),
        (["--unit", "role=3"], "--unit role=3"),
        (["--files", "x"], "--files is for"),
    ],
)
def test_wrong_units_are_refused(words: list[str], message: str, tmp_path: Path) -> None:
    write_trace(tmp_path / "t", oltp()[:20])
    refused(invoke("recommend", tmp_path / "t", *WORDS, *words), message, error=UsageError)


def test_without_roles_the_answer_is_by_extents(tmp_path: Path) -> None:
    # GIVEN a trace whose roles nobody knows, of which 40 blocks take nearly all requests
    hot = [Request("unknown", 16 * block) for _ in range(50) for block in range(40)]
    cold = [Request("unknown", 16 * block) for block in range(40, 440)]
    result = recommended(tmp_path, hot + cold, capacities_bytes=(128 * BLOCK,))
    # THEN whole extents are placed, and why is said
    found = result["units"]
    assert (found["unit"], found["extent_bytes"], found["is_default"]) == (
        "extent",
        8 * BLOCK,
        True,
    )
    assert found["placed_count"] == 16
    # 40 blocks lie in 10 extents of 8 blocks, of which every other is touched; 24 cold ones fit too
    saved_us = (50 * 40 + 24) * 4985
    assert found["base_elapsed_ns"] - found["elapsed_ns"] == saved_us * US
    *by_extents, by_block = result["headline"]
    assert by_block.startswith("Block by block, 512 KiB of unknown (128 extents, in")
    assert by_extents == [
        "With 512 KiB of nvm and only whole extents of 32 KiB, place 16 of 110 (512 KiB: sda"
        " extents 0 to 15): elapsed I/O time falls by 84.1%, from 12 s to 1.91 s.",
        "Most of the time is of requests without a role, so the answer is by extents; set roles"
        " with tracekit classify --role. Smaller extents save more, where they can be moved: those"
        " of 4 KiB 86.7% (--unit extent=4KiB).",
        # Of the last 1,200 requests 800 are to hot blocks, and 24 to cold ones that fit too.
        "Units are chosen in hindsight: of the I/O time of the second half of the requests they"
        " save 68.5%; as many extents of 32 KiB that are chosen from the first half alone save"
        " 66.5%.",
    ]
    # the 40 hot blocks and 88 cold ones, alone
    assert found["finer_gain_ratio"] == (50 * 40 + 88) * 4985 * US / found["base_elapsed_ns"]
    assert "less than by extents of 32 KiB" in by_block
    # AND an answer that is asked for by block has no units, and leaves no table of an older one
    again = recommended(tmp_path, hot + cold, unit="block", capacities_bytes=(128 * BLOCK,))
    assert again["units"] is None
    assert rows_of(tmp_path / "simulations/units.parquet") == []


def test_the_curve_falls_and_ends_with_all_units(tmp_path: Path) -> None:
    recommended(tmp_path, oltp())
    assert not (tmp_path / "simulations/units.parquet").exists()
    result = recommended(tmp_path, oltp(), unit="extent=64KiB", queueing="open")
    curve = result["units"]["curve"]
    times = [point["elapsed_ns"] for point in curve]
    assert times == sorted(times, reverse=True)
    assert times[0] == result["units"]["base_elapsed_ns"] == result["answer"]["base_elapsed_ns"]
    assert curve[-1]["capacity_bytes"] == result["units"]["unit_count"] * (64 << 10)
    assert UNITS.names == [*rows_of(tmp_path / "simulations/units.parquet")[0]]


@pytest.mark.parametrize(("device", "extent"), [("sda", 1 << 20), ("dm-0", 4 << 20)])
def test_extents_of_a_volume_are_by_default_those_that_lvm_moves(
    device: str, extent: int, tmp_path: Path
) -> None:
    requests = [Request("unknown", 2048 * n, device=device) for n in range(40)]
    result = recommended(tmp_path, requests, unit="extent", capacities_bytes=(16 << 20,))
    assert result["units"]["extent_bytes"] == extent
    # AND a volume's stand beside LVM's own data
    assert result["units"]["placed_count"] == (16 if device == "sda" else 3)


def test_units_need_no_pandas(tmp_path: Path) -> None:
    # GIVEN a trace with an answer by units, and then one without, in a program of its own
    write_trace(tmp_path / "t", oltp()[:50])
    lines = [
        "import sys, tracekit as tk",
        "trace, options = tk.open(sys.argv[1]), {'base': 'ssd-sata', 'capacity': '1MiB'}",
        "trace.recommend(unit='extent=64KiB', **options), trace.recommend(**options)",
        "assert 'pandas' not in sys.modules",
    ]
    # THEN it is quick, as pandas takes longer to come in than all of the work
    subprocess.run([sys.executable, "-c", "\n".join(lines), tmp_path / "t"], check=True)
