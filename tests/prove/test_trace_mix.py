"""What requests cost among those of a trace: which are run, and what is fitted to their times."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.traces import write_folder
from tracekit.device.fit import Fitted
from tracekit.device.trace_mix import MixCell, TraceMix, cells_of, fit_cells, in_mix, pooled
from tracekit.plans import block_plan
from tracekit.replay import completions
from tracekit.replay.windows import choose_windows, halves

COUNT = 800
SIZE_BYTES = 4 << 20
COSTS = {
    "read_latency_us": 60.0,
    "write_latency_us": 80.0,
    "read_mib_s": 1000.0,
    "write_mib_s": 500.0,
    "flush_us": 100.0,
    "fua_us": 20.0,
}
ALONE = {"read_latency_us": 45.0, "write_latency_us": 45.0, "read_mib_s": 2500.0,
         "write_mib_s": 900.0, "flush_us": 60.0, "fua_us": 0.0}  # fmt: skip
Row = dict[str, Any]


def rows(*, lengths: tuple[int, ...] = (8, 16, 64)) -> list[Row]:
    """Return a trace of reads, writes, flushes and a journal, some of them in sequence."""
    chance = np.random.default_rng(5)
    found, end = [], 0
    for number in range(COUNT):
        length = int(chance.choice(lengths))
        begins = end if number % 4 == 0 else int(chance.integers(0, 60_000)) // 8 * 8
        operation = "flush" if number % 17 == 3 else "read" if chance.random() < 0.4 else "write"
        flags = {
            "is_fua": operation == "write" and number % 5 == 0,
            "is_preflush": operation == "write" and number % 10 == 0,
        }
        place = {"sector": 0, "length_bytes": 0} if operation == "flush" else {
            "sector": begins, "length_bytes": length * 512}  # fmt: skip
        end = end if operation == "flush" else begins + length
        times = {"queue_ns": number * 1000, "issue_ns": number * 1000 + 10}
        found.append({"operation": operation, **place, **flags, **times, "role": "fs"})
    return found


def mix_of(path: Path, **how: Any) -> TraceMix:
    return TraceMix(write_folder(path / "trace", rows(**how), counts={"requests": COUNT}), 1.0)


@pytest.mark.parametrize("total", [1, 2, 99, 150, 201, 5000, 1_000_003])
def test_no_request_is_measured_and_compared(total: int) -> None:
    measured, compared = halves(total)
    assert halves(total) == (measured, compared)
    both = sorted([*measured, *compared], key=lambda one: one.start)
    assert [number for one in both for number in (one.start, one.stop)][1:-1] == [
        number for one in both[1:] for number in (one.start, one.start)
    ]
    assert (both[0].start, both[-1].stop) == (0, total)
    # THEN both are half of it, and of each two neighbours one is measured
    assert abs(sum(map(len, measured)) - sum(map(len, compared))) <= 8
    for one, next_one in zip(both[::2], both[1::2], strict=False):
        assert (one in measured) == (next_one in compared)
    # AND windows among them, of as many requests as asked, lie within
    for count in (1, total // 3, total):
        found = choose_windows(total, count, among=compared)
        assert sum(map(len, found)) <= max(1, min(count, sum(map(len, compared))))
        for window in found:
            assert any(p.start <= window.start and window.stop <= p.stop for p in compared)


def test_the_requests_run_are_those_of_the_windows_on_the_device(tmp_path: Path) -> None:
    mix, plan = mix_of(tmp_path), tmp_path / "mix.plan"
    count = mix.write_plan(plan, mix.total, size_bytes=SIZE_BYTES)
    found = np.array(block_plan.map_records(plan))
    traced = rows()
    chosen = [traced[number] for part in halves(COUNT)[0] for number in part]
    assert len(found) == count == mix.total == len(chosen)
    words = block_plan.OPERATIONS
    assert [words[one] for one in found["operation"]] == [row["operation"] for row in chosen]
    assert (found["length_sectors"] * 512).tolist() == [row["length_bytes"] for row in chosen]
    # THEN what fits stays where it was, the rest comes onto the device, at whole pages
    for record, row in zip(found, chosen, strict=True):
        sector, last = row["sector"], SIZE_BYTES // 512 - int(record["length_sectors"])
        assert record["sector"] <= last
        assert record["sector"] == sector or (sector > last and record["sector"] % 8 == sector % 8)
    assert not found["intended_ns"].any()
    assert not found["think_ns"].any()
    # AND three times as many are the same ones three times, numbered on
    assert mix.write_plan(plan, 3 * mix.total, size_bytes=SIZE_BYTES) == 3 * count
    thrice = np.array(block_plan.map_records(plan))
    assert thrice["request_id"].tolist() == [*range(3 * count)]
    for name in ("sector", "length_sectors", "operation", "flags"):
        assert thrice[name].tolist() == np.tile(found[name], 3).tolist()


@pytest.mark.parametrize("has_issues", [True, False])
def test_merged_requests_are_run_as_one_in_issue_order(tmp_path: Path, *, has_issues: bool) -> None:
    # GIVEN pairs of writes that were merged, and a flush that overtook each pair
    traced: list[Row] = []
    for pair in range(COUNT // 3):
        at, sector = pair * 9000, pair * 16
        issues = [at + 5000, None, at + 4000] if has_issues else [None] * 3
        merged = [None, len(traced), None] if has_issues else [None] * 3
        traced += [
            {"queue_ns": at + number * 1000, "issue_ns": issues[number], "operation": operation,
             "sector": sector + 8 * number, "length_bytes": length, "merged_into": merged[number]}
            for number, (operation, length) in enumerate(
                [("write", 4096), ("write", 4096), ("flush", 0)])
        ]  # fmt: skip
    folder = write_folder(tmp_path / "trace", traced, counts={"requests": len(traced)})
    plan = tmp_path / "mix.plan"
    mix = TraceMix(folder, 1.0)
    mix.write_plan(plan, mix.total, size_bytes=SIZE_BYTES)
    # THEN they are run as the model charges them
    found = np.array(block_plan.map_records(plan))
    words = [block_plan.OPERATIONS[one] for one in found["operation"]]
    cycle = ["write", "flush"] if has_issues else ["write", "write", "flush"]
    begin = words.index("flush") + 1
    assert words[begin : begin + 10 * len(cycle)] == cycle * 10
    lengths = found["length_sectors"][found["operation"] == block_plan.WRITE]
    whole = 16 if has_issues else 8
    assert (lengths == whole).mean() > 0.9


def test_requests_are_run_as_long_as_asked(tmp_path: Path) -> None:
    mix = mix_of(tmp_path)
    asked_ns = [1e9 / 250, 1e9 / 10, 1e9 / 400, 1e9 / 1199, 1e9 / 1e6]
    assert [mix.requests_for(ns) for ns in asked_ns] == [250, 200, 400, 800, 3200]


def run(plan: Path, file: Path, costs: dict[str, float]) -> float:
    """Write the completions of a device with these costs, one by one; return their sum in ns."""
    records = np.array(block_plan.map_records(plan))
    done = np.zeros(len(records), completions.RECORD)
    at, end, is_written = 1000.0, -1, False
    for number, one in enumerate(records):
        word = block_plan.OPERATIONS[one["operation"]]
        is_flush = word == "flush" or one["flags"] & block_plan.PREFLUSH
        flush_us = (
            costs["flush_us"] if is_written else costs.get("empty_flush_us", costs["flush_us"])
        )
        us = flush_us if is_flush else 0.0
        is_written = (is_written and not is_flush) or (
            word == "write" and not one["flags"] & block_plan.FUA
        )
        if word != "flush":
            pages = int(one["length_sectors"]) * 512 - 4096
            setup = costs[f"{word}_latency_us"] + pages / costs[f"{word}_mib_s"] / 1.048576
            if int(one["sector"]) == end and "sequential_setup_us" in costs:
                rate = costs[f"{word}_mib_s"]
                setup = costs["sequential_setup_us"] + (pages + 4096) / rate / 1.048576
            us += setup + (costs["fua_us"] if one["flags"] & block_plan.FUA else 0.0)
            end = int(one["sector"]) + int(one["length_sectors"])
        done[number]["request_id"] = one["request_id"]
        done[number]["submit_ns"], done[number]["complete_ns"] = at, at + us * 1000
        done[number]["operation"] = one["operation"]
        at += us * 1000
    head = np.zeros(1, completions.HEADER)
    head["magic"], head["header_bytes"] = completions.MAGIC, completions.HEADER.itemsize
    head["record_bytes"], head["record_count"] = completions.RECORD.itemsize, len(done)
    file.write_bytes(head.tobytes() + np.random.default_rng(1).permutation(done).tobytes())
    return at - 1000.0


@pytest.mark.parametrize("more", [{}, {"sequential_setup_us": 30.0, "empty_flush_us": 35.0}])
def test_the_costs_of_a_device_are_found_among_the_requests(
    more: dict[str, float], tmp_path: Path
) -> None:
    # GIVEN a device that was measured as another one by requests among their like
    costs, alone = COSTS | more, ALONE | dict.fromkeys(more, 9.0)
    mix, plan, done = mix_of(tmp_path), tmp_path / "mix.plan", tmp_path / "done"
    mix.write_plan(plan, mix.total, size_bytes=SIZE_BYTES)
    sum_ns = run(plan, done, costs)
    # WHEN what the trace's requests took is fitted
    cells = cells_of(plan, done)
    values = fit_cells(alone, cells)
    # THEN the parts are the device's, and the sum is what was measured
    assert values == pytest.approx(costs, rel=0.03)
    assert sum(one.requests for one in cells) == mix.total
    assert sum(one.requests * one.mean_ns for one in cells) == pytest.approx(sum_ns, rel=1e-4)
    # AND what was measured alone stands beside it
    fitted = in_mix([Fitted(key, one, 0.1) for key, one in alone.items()], cells)
    assert {one.parameter: one.value for one in fitted if one.is_in_profile} == values
    kept = {one.parameter: one.value for one in fitted if not one.is_in_profile}
    assert kept == {f"{key}_alone": one for key, one in alone.items()}


def test_what_the_requests_leave_open_stays_as_measured_alone(tmp_path: Path) -> None:
    # GIVEN requests of one length only, THEN the rates are those measured before
    mix, plan, done = mix_of(tmp_path, lengths=(8,)), tmp_path / "mix.plan", tmp_path / "done"
    mix.write_plan(plan, mix.total, size_bytes=SIZE_BYTES)
    run(plan, done, COSTS)
    values = fit_cells(ALONE, cells_of(plan, done))
    for key in ("read", "write"):
        assert values[f"{key}_latency_us"] == pytest.approx(COSTS[f"{key}_latency_us"], rel=0.02)
        assert values[f"{key}_mib_s"] == pytest.approx(ALONE[f"{key}_mib_s"], rel=0.1)


def test_lengths_that_seem_to_cost_nothing_are_at_most_twice_as_fast_as_alone() -> None:
    # GIVEN writes of two lengths, of which the longer ones took less by chance
    cell = MixCell(operation="write", length_bytes=4096, is_preflush=False, is_fua=False,
                   is_sequential=False, requests=1000, mean_ns=500_000.0)  # fmt: skip
    cells = [cell, msgspec.structs.replace(cell, length_bytes=32768, mean_ns=490_000.0)]
    values = fit_cells(ALONE, cells)
    # THEN the rate is not that of memory, and the requests take what they took
    assert values["write_mib_s"] == pytest.approx(2 * ALONE["write_mib_s"], rel=0.01)
    pages = (4096 + 32768) / 2 / 4096 - 1
    mean_us = values["write_latency_us"] + pages * 4096 / values["write_mib_s"] / 1.048576
    assert mean_us == pytest.approx(495, rel=0.01)


def test_a_sequence_that_is_no_cheaper_costs_a_setup() -> None:
    cell = MixCell(operation="write", length_bytes=4096, is_preflush=False, is_fua=False,
                   is_sequential=False, requests=1000, mean_ns=50_000.0)  # fmt: skip
    cells = [cell, msgspec.structs.replace(cell, is_sequential=True, mean_ns=90_000.0)]
    values = fit_cells(ALONE | {"sequential_setup_us": 20.0}, cells)
    page_us = 4096 / values["write_mib_s"] / 1.048576
    setup_us = min(values["write_latency_us"] - page_us, values["read_latency_us"] - page_us)
    assert values["sequential_setup_us"] <= setup_us + page_us
    assert values["write_latency_us"] == pytest.approx(70, rel=0.02)


def test_several_measurements_are_fitted_together(tmp_path: Path) -> None:
    # GIVEN a device that was measured three times, the last time at half its speed
    mix, plan, done = mix_of(tmp_path), tmp_path / "mix.plan", tmp_path / "done"
    mix.write_plan(plan, mix.total, size_bytes=SIZE_BYTES)
    mixes = []
    for factor in (1.0, 1.1, 2.0):
        run(plan, done, {key: one if "mib" in key else one * factor for key, one in COSTS.items()})
        mixes.append(cells_of(plan, done))
    # THEN a kind has the median of its means, and counts as often as it was run
    cells = pooled(mixes)
    assert len(cells) == len(mixes[0])
    assert sum(one.requests for one in cells) == 3 * mix.total
    for one, middle in zip(cells, mixes[1], strict=True):
        assert one.mean_ns == pytest.approx(middle.mean_ns)
    # AND the costs are those of the measurement in the middle, all of them
    found, middle_alone = fit_cells(ALONE, cells), fit_cells(ALONE, mixes[1])
    assert found == pytest.approx(middle_alone, rel=0.03)
