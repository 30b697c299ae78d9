"""`simulate sensitivity`: each change is what a plain recommendation with it would say."""

from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import tomli_w
from msgspec import to_builtins
from typer.testing import Result

from tests.command_line import invoke, refused
from tests.recommend.traces import answer_with
from tests.simulate import placement_models
from tests.simulate.placement_models import DISK, NVM, Request, gain, placed_blocks, write_trace
from tests.traces import json_of
from tracekit.devices import DevicePair, Profile, device_cost, load_profiles
from tracekit.errors import UsageError
from tracekit.model.answer import Cut
from tracekit.model.changes import changed_profile, variants
from tracekit.model.gain_range import Cutter, Window, choose_cut, windows
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.model.sensitivity import Trial, headline
from tracekit.query import connect, views
from tracekit.report.inputs import Inputs
from tracekit.report.section import Section
from tracekit.report.sections.placement import places, sensitivity
from tracekit.store import TraceFolder
from tracekit.tables import SENSITIVITY
from tracekit.units import HOUR_NS

MS = 1_000_000
COUNT = 240
PARTS = {
    "read_setup", "write_setup", "sequential_setup", "read_transfer", "write_transfer",
    "flush", "fua",
}  # fmt: skip


def requests() -> list[Request]:
    """Return a trace whose second half is the journal's, with flushes and FUA."""
    found = []
    for number in range(COUNT):
        is_journal = number % (5 if number < COUNT // 2 else 2) == 0
        sector = 8000 + number // 2 % 20 * 8 if is_journal else number * number % 60 * 8
        found.append(
            Request(
                "journal" if is_journal else "fs",
                sector,
                8 + 8 * (number % 3),
                "read" if number % 4 == 1 else "write",
                is_fua=number % 9 == 0 and number % 4 != 1,
                is_preflush=number % 10 == 0,
                queue_ns=number * MS,
                issue_ns=number * MS + 10,
            )
        )
    return found


def profile_file(path: Path, *profiles: Profile) -> Path:
    """Write profiles as a user would."""
    tables = {
        one.name: {k: v for k, v in asdict(one).items() if v not in (None, ())} for one in profiles
    }
    for table in tables.values():
        del table["name"]
    path.write_text(tomli_w.dumps(tables))
    return path


def options(tmp_path: Path, base: Profile, nvm: Profile) -> RecommendOptions:
    file = profile_file(tmp_path / "own.toml", base, nvm)
    return RecommendOptions(base="disk", nvm="nvm", profiles=file, capacities_bytes=(12 * 4096,))


@pytest.fixture
def folder(tmp_path: Path) -> TraceFolder:
    info = {"counts": {"requests": COUNT}, "clock": {"duration_ns": COUNT * MS, "wall_ns": None}}
    made = TraceFolder(write_trace(tmp_path / "trace", requests(), **info))
    recommend(made, options(tmp_path, DISK, NVM))
    return made


def simulate(folder: TraceFolder, *arguments: str) -> Result:
    return invoke("simulate", "sensitivity", folder.path, *arguments)


def found_rows(folder: TraceFolder) -> list[dict[str, Any]]:
    table = pq.read_table(folder.path / "simulations" / "sensitivity.parquet")
    assert table.schema.names == SENSITIVITY.names
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def answer_of(folder: TraceFolder) -> dict[str, Any]:
    return dict(json_of(folder.path / "recommendation.json")["answer"])


def brute_force_ns(folder: TraceFolder, profiles: tuple[Profile, Profile]) -> float:
    """Charge all requests, with the recommended blocks on NVM."""
    blocks = placed_blocks(requests(), answer_of(folder))
    return placement_models.model(requests(), blocks, profiles).service / 1000


def test_an_answer_by_extents_is_tried_with_its_extents(tmp_path: Path) -> None:
    # GIVEN a trace without roles, whose answer is by extents
    chosen = [replace(one, role="unknown", is_preflush=False) for one in requests()]
    info = {"counts": {"requests": COUNT}, "clock": {"duration_ns": COUNT * MS, "wall_ns": None}}
    made = TraceFolder(write_trace(tmp_path / "trace", chosen, **info))
    advice = recommend(made, options(tmp_path, DISK, NVM))
    assert advice.units is not None
    assert advice.units.placed_count > 0
    table = pq.read_table(made.table("simulations/unit_blocks")).to_pylist()
    placed = {
        (row["device"], row["first_block"] + number)
        for row in table
        for number in range(row["blocks"])
    }
    assert simulate(made, "--factors", "0.5,3", "--windows", "4").exit_code == 0
    # THEN what is tried are these blocks, on each device and in each window
    first, *rows = found_rows(made)
    for row in rows:
        pair, part = [DISK, NVM], chosen
        if row["kind"] == "parameter":
            at = ["base", "nvm"].index(row["device"])
            pair[at] = changed_profile(pair[at], row["parameter"], factor=row["factor"])
        else:
            part = chosen[(row["window"] - 1) * COUNT // 4 : row["window"] * COUNT // 4]
        alone, kept = (
            placement_models.model(part, blocks, (pair[0], pair[1]), trace=chosen).service / 1000
            for blocks in (set(), placed)
        )
        assert (row["base_ns"], row["kept_ns"]) == pytest.approx((alone, kept), abs=2)
        assert (row["placement"], row["holds"]) == ("units", True)
    assert Counter(row["kind"] for row in rows)["window"] == 4
    # AND the first line is of them
    said = json_of(made.path / "simulations/sensitivity.json")
    assert first["kept_gain_ratio"] == advice.units.gain_ratio == said["gain_ratio"]
    assert "whole units" in said["headline"][0]
    inputs = Inputs(TraceFolder(made.path))
    assert sensitivity(inputs) is not None


def test_each_change_is_a_recommendation_with_it(folder: TraceFolder, tmp_path: Path) -> None:
    assert simulate(folder, "--factors", "0.5,3").exit_code == 0
    changed = [row for row in found_rows(folder) if row["kind"] == "parameter"]
    assert {row["parameter"] for row in changed} == PARTS
    # (what continues the request before costs the disk no setup, which cannot take longer)
    assert len(changed) == 2 * (2 * len(PARTS) - 1)
    again = TraceFolder(write_trace(tmp_path / "again", requests()))
    for row in changed:
        pair = [DISK, NVM]
        which = ("base", "nvm").index(row["device"])
        pair[which] = changed_profile(pair[which], row["parameter"], factor=row["factor"])
        told = to_builtins(recommend(again, options(tmp_path, pair[0], pair[1])).answer)
        assert row["placement"] == told["placement"]
        assert row["gain_ratio"] == pytest.approx(told["gain_ratio"], abs=1e-12)
        assert row["base_ns"] == told["base_elapsed_ns"]
        assert row["holds"] == (told["placement"] == answer_of(folder)["placement"])
        # and the recommended shares cost what an explicit sum says
        kept = brute_force_ns(folder, (pair[0], pair[1]))
        assert row["kept_ns"] == pytest.approx(kept, abs=1)
        assert row["kept_gain_ratio"] == pytest.approx(1 - kept / row["base_ns"], abs=1e-6)


@pytest.mark.parametrize("parameter", sorted(PARTS - {"sequential_setup"}))
@pytest.mark.parametrize("factor", [0.25, 4.0])
def test_only_that_part_of_a_request_changes(parameter: str, factor: float) -> None:
    before, after = (device_cost(NVM), device_cost(changed_profile(NVM, parameter, factor=factor)))
    index = 0 if parameter.startswith("read") else 1
    other = 1 - index
    if parameter.endswith("setup"):
        assert after.latency_ps[index] == pytest.approx(factor * before.latency_ps[index], rel=1e-6)
        assert after.sector_ps == before.sector_ps
    elif parameter.endswith("transfer"):
        assert after.sector_ps[index] == pytest.approx(factor * before.sector_ps[index], abs=1)
        assert after.latency_ps == pytest.approx(before.latency_ps, rel=1e-6)
    assert after.latency_ps[other] == before.latency_ps[other]
    assert after.sector_ps[other] == before.sector_ps[other]
    changed = changed_profile(NVM, parameter, factor=factor)
    for key in ("flush_us", "empty_flush_us"):
        before_us = getattr(NVM, key)
        assert getattr(changed, key) == before_us * (factor if parameter == "flush" else 1)
    assert changed.fua_us == NVM.fua_us * (factor if parameter == "fua" else 1)


def test_what_takes_no_time_cannot_take_longer() -> None:
    bare = replace(NVM, flush_us=0.0, fua_us=0.0, sequential_setup_us=None)
    found = {variant.parameter for variant in variants(DevicePair(bare, bare), (2.0,))}
    assert found == {"read_setup", "write_setup", "read_transfer", "write_transfer"}


@pytest.mark.parametrize("windows_of", ["80ms", "3"])
def test_each_window_is_a_recommendation(
    folder: TraceFolder, tmp_path: Path, windows_of: str
) -> None:
    assert simulate(folder, "--windows", windows_of).exit_code == 0
    found = [row for row in found_rows(folder) if row["kind"] == "window"]
    # (a window by time ends where the next one begins, one by count with its last request)
    ends = [(n + 1) * 80 * MS if windows_of == "80ms" else (n * 80 + 79) * MS + 1 for n in range(3)]
    assert [row["start_ns"] for row in found] == [n * 80 * MS for n in range(3)]
    assert [row["end_ns"] for row in found] == ends
    assert [row["window"] for row in found] == [1, 2, 3]
    for number, row in enumerate(found):
        # GIVEN a folder of the requests of one window, with the blocks of the whole trace
        part = write_trace(tmp_path / "part", requests())
        table = pq.read_table(part / "requests.parquet")
        pq.write_table(table.slice(number * 80, 80), part / "requests.parquet")
        told = to_builtins(recommend(TraceFolder(part), options(tmp_path, DISK, NVM)).answer)
        assert row["requests"] == 80
        assert row["placement"] == told["placement"]
        assert row["gain_ratio"] == pytest.approx(told["gain_ratio"], abs=1e-12)
        assert row["base_ns"] == told["base_elapsed_ns"]
    # (each begins with a seek, and with nothing to flush)
    assert DISK.empty_flush_us is not None
    saved_ns = 3 * (DISK.flush_us - DISK.empty_flush_us) * 1000
    assert sum(row["base_ns"] for row in found) >= found_rows(folder)[0]["base_ns"] - saved_ns


def test_the_row_of_the_recommendation_is_the_recommendation(folder: TraceFolder) -> None:
    assert simulate(folder).exit_code == 0
    first, answer = found_rows(folder)[0], answer_of(folder)
    assert first["kind"] == "recommended"
    assert first["kept_ns"] == answer["elapsed_ns"]
    assert first["gain_ratio"] == pytest.approx(answer["gain_ratio"], abs=1e-12)
    assert first["holds"]
    told = json_of(folder.path / "simulations" / "sensitivity.json")
    low, high = told["gain_range"]["parameter"]
    assert low <= answer["gain_ratio"] <= high
    kinds = Counter(row["kind"] for row in found_rows(folder))
    assert told["tried"] == kinds["parameter"] + kinds["window"]
    # and capacities are those of the recommendation
    sizes = [row["gain_ratio"] for row in found_rows(folder) if row["kind"] == "capacity"]
    advice = json_of(folder.path / "recommendation.json")
    assert sizes == [one["gain_ratio"] for one in advice["answers"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--factors", "1"), "--factors 1:"),
        (("--factors", "0"), "--factors 0:"),
        (("--factors", "nan"), "--factors nan:"),
        (("--factors", "x"), "'x' is not a number"),
        (("--windows", "1ns"), "more than 168 windows"),
        (("--windows", "0s"), "longer than nothing"),
        (("--windows", "5x"), "'5x' is not a time"),
        (("--windows", "0"), "not between 1 and 168"),
        (("--windows", "169"), "not between 1 and 168"),
        (("--windows", "-3"), "is not a time"),
        (("--placement", "3KiB"), "there is no answer for this capacity"),
    ],
)
def test_refusals(folder: TraceFolder, arguments: tuple[str, ...], message: str) -> None:
    done = simulate(folder, *arguments)
    refused(done, message)
    assert not (folder.path / "simulations" / "sensitivity.parquet").exists()
    assert sorted(path.name for path in folder.path.parent.iterdir()) == ["own.toml", "trace"]


@pytest.mark.parametrize("count", [0, 1])
def test_a_trace_of_nothing_has_a_defined_answer(tmp_path: Path, count: int) -> None:
    folder = TraceFolder(write_trace(tmp_path / "t", requests()[:count]))
    recommend(folder, options(tmp_path, DISK, NVM))
    done = simulate(folder)
    assert done.exit_code == 0, done.output
    for row in found_rows(folder):
        assert "nan" not in (str(row["gain_ratio"]), str(row["kept_gain_ratio"]))


def test_a_view_and_a_section_show_it(folder: TraceFolder) -> None:
    assert sensitivity(Inputs(folder)) is None
    assert simulate(folder).exit_code == 0
    with connect(TraceFolder(folder.path)) as connection:
        assert "sensitivity" in views(connection)
    section = sensitivity(Inputs(TraceFolder(folder.path)))
    assert isinstance(section, Section)
    drawn = places(section.parts["figure"].evidence.table)
    lines = drawn[drawn["kind"] == "parameter"].groupby("label")["place"].nunique()
    assert set(lines) == {1}
    assert drawn[drawn["kind"] == "window"]["place"].is_unique


@pytest.mark.parametrize("queueing", ["serial", "open"])
def test_shares_are_timed_on_each_device_and_in_each_window(queueing: str, tmp_path: Path) -> None:
    # GIVEN a recommendation for a disk with a head, as queued
    trace = [replace(request, issue_ns=None) for request in requests()]
    info = {"counts": {"requests": COUNT}, "clock": {"duration_ns": COUNT * MS, "wall_ns": None}}
    folder = TraceFolder(write_trace(tmp_path / "trace", trace, **info))
    disk = load_profiles()["hdd-7200-seek"]
    file = profile_file(tmp_path / "own.toml", NVM)
    options = RecommendOptions(disk.name, "nvm", (12 * 4096,), profiles=file)
    recommend(folder, replace(options, queueing=queueing))
    assert simulate(folder, "--factors", "3", "--windows", "3").exit_code == 0
    held = placed_blocks(trace, answer_of(folder))

    rows = [row for row in found_rows(folder) if row["kind"] != "capacity"]
    assert {row["parameter"] for row in rows} >= {"seek", "rotation", "read_transfer", "flush"}
    for row in rows:
        devices = [disk, NVM]
        if row["kind"] == "parameter":
            which = ("base", "nvm").index(row["device"])
            devices[which] = changed_profile(devices[which], row["parameter"], factor=row["factor"])
        is_window = row["kind"] == "window"
        part = trace[(row["window"] - 1) * 80 :][:80] if is_window else trace
        # THEN the gain of the recommended shares is that of a model of one placement
        expected = gain(part, held, (devices[0], devices[1]), queueing=queueing, trace=trace)
        assert row["kept_gain_ratio"] == pytest.approx(expected, abs=1e-9)
        assert row["kept_ns"] == pytest.approx(row["base_ns"] * (1 - expected), abs=1)


def test_a_window_that_loses_is_reported_to_take_longer() -> None:
    # GIVEN windows in which the recommended shares cost a tenth, and save a quarter
    answer = answer_with(capacity_bytes=4096, placement="swap", gain_ratio=0.2)
    rows = [
        Trial(kind="window", requests=9, holds=gain > 0, placement="swap", kept_gain_ratio=gain,
              gain_ratio=0.3, window=number, start_ns=number * 2000)
        for number, gain in ((1, -0.1), (4, 0.25))
    ]  # fmt: skip
    # WHEN they are told, THEN no time is saved that is lost
    assert (
        "In 1 of 2 windows it is the best answer; it takes 10.0% more time than the base device"
        " alone in the worst of them (window 1, from the start) and saves 25.0% of the time in the"
        " best (window 4, from 8 us)."
    ) in headline(answer, rows)


def test_requests_without_time_are_in_no_window_and_counted(tmp_path: Path) -> None:
    timed = [*requests()[:10], replace(requests()[10], queue_ns=None, issue_ns=None)]
    timed.append(replace(requests()[11], queue_ns=None, issue_ns=11 * MS))
    folder = TraceFolder(write_trace(tmp_path / "t", timed))
    with windows(folder, Cut(length_ns=4 * MS)) as (parts, timeless):
        assert timeless == 1
        assert [part.requests for part, _ in parts] == [4, 4, 3]
        assert sum(pq.read_metadata(table).num_rows for _, table in parts) == 11
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize(
    ("duration_ns", "asked", "expected"),
    [
        (24 * HOUR_NS, None, Cut(length_ns=HOUR_NS)),
        (3 * HOUR_NS, None, Cut(length_ns=HOUR_NS)),
        (336 * HOUR_NS, None, Cut(length_ns=2 * HOUR_NS)),
        (3 * HOUR_NS - 1, None, Cut(requests=30)),
        (0, None, Cut(requests=30)),
        (1000, "300ns", Cut(length_ns=300)),
        (1000, "7", Cut(requests=35)),
        (24 * HOUR_NS, "240", Cut(requests=1)),
        (24 * HOUR_NS, "1", Cut(requests=240)),
    ],
)
def test_default_windows(
    duration_ns: int, asked: str | None, expected: Cut, tmp_path: Path
) -> None:
    clock = {"duration_ns": duration_ns, "wall_ns": None}
    folder = TraceFolder(write_trace(tmp_path / "t", requests(), clock=clock))
    if expected.requests == 1:
        with pytest.raises(UsageError, match="between 1 and 168"):
            choose_cut(folder, asked)
    else:
        assert choose_cut(folder, asked) == expected


def test_an_early_row_stays_in_the_window_of_the_row_before() -> None:
    # GIVEN rows at 0, 9, 3 and 12 ns, and one without a time, in windows of 4 ns, in two batches
    cutter = Cutter(Cut(length_ns=4))
    first = list(cutter.parts(np.array([0, 9, 3, -1], np.int64)))
    then = list(cutter.parts(np.array([2, 12], np.int64)))
    assert (first, then) == ([(0, 0, 1), (2, 1, 3)], [(2, 0, 1), (3, 1, 2)])
    assert cutter.timeless == 1
    assert cutter.window(2) == Window(3, 8, 12, 3)
