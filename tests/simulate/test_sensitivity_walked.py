"""`simulate sensitivity` with a head and with queues: the recommended shares are timed, too."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulate.placement_traces import NVM, hottest_first, write_trace
from tests.simulate.test_sensitivity import COUNT, MS, answer_of, profile_file, requests, rows_of
from tests.simulate.test_sensitivity import simulate as run
from tests.simulate.walk_model import model
from tracekit.devices import Profile, load_profiles
from tracekit.model.changes import changed_profile
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.store import TraceFolder


@pytest.mark.parametrize("queueing", ["serial", "open"])
def test_the_shares_are_timed_on_each_device_and_in_each_window(
    queueing: str, tmp_path: Path
) -> None:
    # GIVEN a recommendation for a disk with a head, as queued
    trace = [replace(request, issue_ns=None) for request in requests()]
    info = {"counts": {"requests": COUNT}, "clock": {"duration_ns": COUNT * MS, "wall_ns": None}}
    folder = TraceFolder(write_trace(tmp_path / "trace", trace, **info))
    disk = load_profiles()["hdd-7200-seek"]
    file = profile_file(tmp_path / "own.toml", NVM)
    options = RecommendOptions(disk.name, "nvm", (12 * 4096,), profiles=file)
    recommend(folder, replace(options, queueing=queueing))
    # WHEN it is tried with each part three times as long, and in thirds
    assert run(folder, "--factors", "3", "--windows", "3").exit_code == 0
    held = {
        block
        for role in ("fs", "journal", "swap")
        for block in hottest_first(trace, role)[: answer_of(folder)[f"{role}_bytes"] // 4096]
    }

    def gain(devices: tuple[Profile, Profile], first: int = 0, count: int = COUNT) -> float:
        part = trace[first : first + count]
        alone, placed = (
            model(part, blocks, devices, level="queued", trace=trace) for blocks in (set(), held)
        )
        if queueing == "open":
            return 1 - sum(placed.responses) / sum(alone.responses)
        return 1 - placed.service / alone.service

    rows = [row for row in rows_of(folder) if row["kind"] != "capacity"]
    assert {row["parameter"] for row in rows} >= {"seek", "rotation", "read_transfer", "flush"}
    for row in rows:
        devices = [disk, NVM]
        if row["kind"] == "parameter":
            which = ("base", "nvm").index(row["device"])
            devices[which] = changed_profile(devices[which], row["parameter"], factor=row["factor"])
        place = ((row["window"] - 1) * 80, 80) if row["kind"] == "window" else (0, COUNT)
        # THEN the gain of the recommended shares is that of a model of one placement
        expected = gain((devices[0], devices[1]), *place)
        assert row["kept_gain_ratio"] == pytest.approx(expected, abs=1e-9)
        assert row["kept_ns"] == pytest.approx(row["base_ns"] * (1 - expected), abs=1)
