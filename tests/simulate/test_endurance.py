"""`simulate endurance`: writes a page against brute force, wear by hand, price, bad input."""

import json
import math
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import Result

from tests.command_line import invoke, refused, succeed
from tests.simulate.placement_models import DISK, NVM, Request, hottest_first, write_trace
from tests.simulate.test_sensitivity import profile_file
from tests.traces import rows_of, written
from tracekit.devices import Profile
from tracekit.errors import InputError
from tracekit.model.endurance import Bearer, a_day, lasting, lifetimes, wear_of
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.query import connect, views
from tracekit.report.inputs import Inputs
from tracekit.report.section import Section
from tracekit.report.sections import placement
from tracekit.store import TraceFolder
from tracekit.tables import ENDURANCE
from tracekit.units import DAY_NS

HOUR_NS = DAY_NS // 24
CAPACITY_BLOCKS = 12


def requests() -> list[Request]:
    """Return writes of two devices and two roles; some reach over several pages, some read."""
    chance = random.Random(5)  # noqa: S311 - a fixed trace, no secret
    return [
        Request(
            role,
            (8000 if role == "journal" else 0) + chance.randrange(160),
            chance.choice([1, 8, 24]),
            chance.choice(["write", "write", "read"]),
            device=chance.choice(["sda", "sdb"]),
            queue_ns=number,
        )
        for number in range(300)
        for role in [chance.choice(["fs", "journal"])]
    ]


def made(tmp_path: Path, chosen: list[Request], *, nvm: Profile = NVM, **clock: Any) -> TraceFolder:
    info = {"clock": {"duration_ns": HOUR_NS, "wall_ns": None, **clock}}
    folder = TraceFolder(write_trace(tmp_path / "trace", chosen, **info))
    file = profile_file(tmp_path / "own.toml", DISK, nvm)
    sizes = (CAPACITY_BLOCKS * 4096,)
    recommend(
        folder, RecommendOptions(base="disk", nvm="nvm", profiles=file, capacities_bytes=sizes)
    )
    return TraceFolder(folder.path)


def test_the_writes_to_placed_units_wear_the_nvm(tmp_path: Path) -> None:
    # GIVEN a trace without roles, whose answer is by extents
    chosen = [replace(one, role="unknown") for one in requests()]
    folder = made(tmp_path, chosen, nvm=replace(NVM, endurance_cycles=1e6))
    table = rows_of(folder.table("simulations/unit_blocks"))
    placed = {
        (row["device"], row["first_block"] + number)
        for row in table
        for number in range(row["blocks"])
    }
    assert placed
    # THEN the units are worn by the pages written there, one by one
    writes = Counter(block for one in chosen if one.operation == "write" for block in one.blocks)
    result, rows = simulated(folder)
    names = [row["name"] for row in rows if row["kind"] == "placement"]
    assert (result["placement"], names) == ("units", ["units", "most-accessed-first"])
    row = next(row for row in rows if row["name"] == "units")
    count = sum(writes[block] for block in placed)
    assert row["page_writes"] == count > 0
    assert row["ideal_days"] == pytest.approx(CAPACITY_BLOCKS * 1e6 / count / 24)
    assert any("for whole units, 1,000,000 writes a cell" in line for line in result["headline"])


@pytest.fixture
def folder(tmp_path: Path) -> TraceFolder:
    return made(tmp_path, requests())


def simulate(folder: TraceFolder, *arguments: str) -> Result:
    return invoke("simulate", "endurance", folder.path, *arguments)


def simulated(folder: TraceFolder, *arguments: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    done = succeed("simulate", "endurance", folder.path, "--json", *arguments)
    rows = rows_of(folder.path / "simulations" / "endurance.parquet")
    for row in rows:
        assert list(row) == ENDURANCE.names
        assert all(math.isfinite(one) for one in row.values() if isinstance(one, int | float))
    return json.loads(done.stdout), rows


def brute_force(blocks: set[tuple[str, int]]) -> dict[str, Any]:
    """Count the writes of each page by walking the requests."""
    counts = Counter(
        block
        for request in requests()
        if request.operation == "write"
        for block in request.blocks
        if block in blocks
    )
    ordered = sorted(counts.values())
    return {
        "pages": len(blocks),
        "written_pages": len(ordered),
        "page_writes": sum(ordered),
        "write_invalidation_factor": sum(ordered) / len(ordered),
        "writes_p99": next(
            value for n, value in enumerate(ordered, 1) if 100 * n >= 99 * len(ordered)
        ),
        "writes_max": ordered[-1],
    }


def test_roles_and_placements_are_what_a_walk_over_the_requests_counts(folder: TraceFolder) -> None:
    _, rows = simulated(folder)
    expected = {}
    for role in ("fs", "journal"):
        own = hottest_first(requests(), role)
        expected["role", role] = brute_force(set(own))
        expected["placement", role] = brute_force(set(own[:CAPACITY_BLOCKS]))
    hottest = hottest_first(requests())[:CAPACITY_BLOCKS]
    expected["placement", "most-accessed-first"] = brute_force(set(hottest))
    found = {(row["kind"], row["name"]): row for row in rows}
    assert set(found) - set(expected) <= {("placement", "combined")}
    for key, counted in expected.items():
        assert {name: found[key][name] for name in counted} == counted, key


def test_bytes_of_a_role_a_day_are_24_times_its_writes_an_hour(folder: TraceFolder) -> None:
    result, rows = simulated(folder)
    for row in (row for row in rows if row["kind"] == "role"):
        mine = [one for one in requests() if (one.operation, one.role) == ("write", row["name"])]
        written = sum(one.sectors * 512 for one in mine)
        assert (row["written_bytes"], row["bytes_a_day"]) == (written, pytest.approx(24 * written))
    assert "a day is 24.0 times that" in result["headline"][0]


def test_a_trace_of_a_day_is_not_called_short(tmp_path: Path) -> None:
    result, _ = simulated(made(tmp_path, requests(), duration_ns=DAY_NS))
    assert not any("times that at the same rate" in line for line in result["headline"])


def test_lifetimes_written_out_by_hand() -> None:
    # 4 pages, 3 written 1, 2 and 5 times in half a day: 16 writes a day, 10 of the worst.
    wear = wear_of(np.array([0, 1, 2, 5]))
    assert (wear.pages, wear.written_pages, wear.page_writes, wear.writes_max) == (4, 3, 8, 5)
    bearer = Bearer(4 * 4096, 1000.0)
    assert lifetimes(wear, bearer, duration_ns=DAY_NS // 2) == (1000 * 4 / 16, 1000 / 10)
    amplified = replace(bearer, write_amplification=2.0)
    assert lifetimes(wear, amplified, duration_ns=DAY_NS // 2) == (125.0, 50.0)
    unknown = replace(bearer, endurance_cycles=None)
    assert lifetimes(wear, unknown, duration_ns=DAY_NS) == (None, None)
    unwritten = wear_of(np.array([0, 0]))
    assert lifetimes(unwritten, bearer, duration_ns=DAY_NS) == (None, None)
    assert lifetimes(wear, bearer, duration_ns=0) == (None, None)
    assert a_day(3, 0) is None


@pytest.mark.parametrize(
    ("count", "expected"), [(1, 1), (99, 99), (100, 99), (101, 100), (200, 198), (201, 199)]
)
def test_the_percentile_is_the_nearest_rank(count: int, expected: int) -> None:
    writes = np.arange(1, count + 1)
    np.random.default_rng(1).shuffle(writes)
    assert wear_of(writes).writes_p99 == expected


@pytest.mark.parametrize(
    ("days", "text"), [(0.25, "6 hours"), (1.0, "1.0 days"), (365.25 * 1200, "1,200.0 years")]
)
def test_a_lifetime_is_reported_in_its_unit(days: float, text: str) -> None:
    assert lasting(days) == text


def test_levelling_never_shortens_a_life(folder: TraceFolder, tmp_path: Path) -> None:
    what_if = written(tmp_path / "w.toml", "[endurance_cycles]\nnvm = 1e6\n")
    result, rows = simulated(folder, "--what-if", str(what_if))
    placed = [row for row in rows if row["kind"] == "placement"]
    assert placed
    told = [line for line in result["headline"] if "wear levelling and" in line]
    assert len(told) == len(placed)
    for row in placed:
        assert row["unlevelled_days"] == pytest.approx(1e6 / (row["writes_max"] * 24))
        assert row["ideal_days"] == pytest.approx(1e6 * 12 / (row["page_writes"] * 24))
        assert row["ideal_days"] >= row["unlevelled_days"]


def test_what_is_not_known_is_reported(folder: TraceFolder, tmp_path: Path) -> None:
    what_if = written(tmp_path / "w.toml", 'currency = "EUR"\n')
    result, rows = simulated(folder, "--what-if", str(what_if))
    text = "\n".join(result["headline"])
    assert "the lifetime is not known, because nvm has no endurance_cycles" in text
    assert "of nvm in EUR is not known" in text
    assert {row["price"] for row in rows} == {row["ideal_days"] for row in rows} == {None}


def test_price_and_endurance_come_from_profile_or_what_if(tmp_path: Path) -> None:
    folder = made(tmp_path, requests(), nvm=replace(NVM, endurance_cycles=5e5))
    relative, rows = simulated(folder)
    assert (relative["endurance_cycles"], relative["currency"]) == (5e5, "")
    assert {row["price"] for row in rows if row["kind"] == "placement"} == {24 * 12 * 4096 / 1e9}
    what_if = tmp_path / "w.toml"
    what_if.write_text(
        'currency = "EUR"\n[devices.mine]\nlike = "ssd-pcm"\nprice_per_gb = 2.5\n'
        "endurance_cycles = 1e7\n[price_per_gb]\nnvm = 3\n"
    )
    told, _ = simulated(folder, "--what-if", str(what_if))
    assert (told["price_per_gb"], told["endurance_cycles"]) == (3.0, 5e5)
    own, _ = simulated(folder, "--what-if", str(what_if), "--device", "mine")
    assert (own["price_per_gb"], own["endurance_cycles"], own["device"]) == (2.5, 1e7, "mine")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[endurance_cycles]\nnvn = 5\n", "unknown key 'nvn'"),
        ("[endurance_cycles]\nnvm = 0\n", "not between 1 and 1e18"),
        ("[endurance_cycles]\nnvm = nan\n", "is not a number from 0 up"),
        ("[endurance_cycle]\nnvm = 5\n", "unknown key 'endurance_cycle'"),
        ("endurance_cycles = 5\n", "not a table"),
        ("[price_per_gb]\nnvm = 0\n", "a price of 0"),
    ],
)
def test_bad_what_ifs(folder: TraceFolder, tmp_path: Path, text: str, message: str) -> None:
    what_if = written(tmp_path / "w.toml", text)
    refused(simulate(folder, "--what-if", str(what_if)), message, error=InputError)
    assert not (folder.path / "simulations" / "endurance.parquet").exists()


@pytest.mark.parametrize(
    "arguments",
    [("--device", "pcn"), ("--placement", "5GiB"), ("--write-amplification", "0.5"),
     ("--write-amplification", "nan")],
)  # fmt: skip
def test_bad_options(folder: TraceFolder, arguments: tuple[str, ...]) -> None:
    refused(simulate(folder, *arguments))


def test_traces_of_nothing_one_request_or_reads_have_an_answer(tmp_path: Path) -> None:
    reads = [replace(request, operation="read") for request in requests()]
    for number, chosen in enumerate(([], requests()[:1], reads)):
        (tmp_path / str(number)).mkdir()
        folder = made(tmp_path / str(number), chosen, duration_ns=0)
        result, rows = simulated(folder)
        assert any("duration is not known" in line for line in result["headline"])
        assert {row["bytes_a_day"] for row in rows} <= {None}
        section = placement.endurance(Inputs(folder))
        assert isinstance(section, Section)


def test_a_view_and_a_section_show_it(folder: TraceFolder) -> None:
    assert placement.endurance(Inputs(folder)) is None
    simulated(folder)
    with connect(TraceFolder(folder.path)) as connection:
        assert "endurance" in views(connection)
    section = placement.endurance(Inputs(TraceFolder(folder.path)))
    assert isinstance(section, Section)
    shown = placement.written(section.parts["figure"].evidence.table)
    assert shown["label"].is_unique
    assert shown["label"].iloc[-1] == "on NVM: most accessed first"
    assert "<svg" in section.parts["figure"].drawing.svg


def test_splits_of_two_of_three_roles_are_named(tmp_path: Path) -> None:
    swap = [Request("swap", 20_000 + 8 * number, queue_ns=number) for number in range(9)]
    folder = made(tmp_path, [*requests(), *swap], nvm=replace(NVM, endurance_cycles=5e5))
    result, _ = simulated(folder)
    text = "\n".join(result["headline"])
    assert "of nvm for the file system and the journal, 500,000 writes a cell: lasts" in text
