"""`tracekit simulate tiers`: what moving extents costs, up and down, by time and by rate."""

from pathlib import Path

import pytest

from tests.simulate.test_tiers import ACCESSES, rows, run
from tests.simulate.tier_traces import tier_trace


def test_promotions_and_demotions_have_costs_of_their_own(tmp_path: Path) -> None:
    # GIVEN the same moves, 0 and 1 up and 3 and 2 down, up at three times and down at half the cost
    folder = tier_trace(tmp_path / "trace", ACCESSES)
    costs = {"promotion_cost": 3.0, "demotion_cost": 0.5, "migration_cost": 2.0}
    run(folder, is_dynamic=True, window_s=1.0, charges_migration=True, **costs)
    up_us = 16 * (5000 + 128.3 + 5000 + 37.1)
    down_us = 16 * (6.7 + 5000 + 108 + 5000)
    served_us = (2 + 1) * 5000 + 7 * (2 * 6.7 + 37.1) + 2 * 5000
    mixes = {tuple(row["share_ratio"]): row for row in rows(folder, "tiers")}
    found = mixes[0.25, 0.25, 0.5]["dynamic_latency_avg_ns"]
    expected = served_us + 2 * (3 * up_us + 0.5 * down_us)
    assert found == pytest.approx(expected / 26 * 1e3)


@pytest.mark.parametrize("amount", ["bytes", "requests"])
def test_moving_takes_the_time_of_the_bandwidths(tmp_path: Path, amount: str) -> None:
    # GIVEN tiers that read 100, 50 and 10 MiB/s and write half as much
    text = ""
    for name, read_us, write_us, rate in (
        ("ssd-pcm", 6.7, 128.3, 100),
        ("ssd-emlc", 108.0, 37.1, 50),
        ("hdd-15k", 5000.0, 5000.0, 10),
    ):
        text += f"[devices.{name}]\nread_latency_us = {read_us}\nwrite_latency_us = {write_us}\n"
        text += f"price_per_gb = 1\nread_mib_s = {rate}\nwrite_mib_s = {rate / 2}\n"
    (tmp_path / "what-if.toml").write_text(text)
    moved = {"is_dynamic": True, "window_s": 1.0, "amount": amount}
    means = []
    for place, options in (
        ("free", {}),
        ("charged", {"charges_migration": True, "moves_by": "bandwidth"}),
    ):
        folder = tier_trace(tmp_path / place, ACCESSES)
        run(folder, **moved, **options, what_if=tmp_path / "what-if.toml")
        mixes = {tuple(row["share_ratio"]): row for row in rows(folder, "tiers")}
        means.append(mixes[0.25, 0.25, 0.5]["dynamic_latency_avg_ns"])
    # THEN each of four moves of 64 KiB is read at one rate and written at the other
    seconds = [1 / 10 + 1 / 50, 1 / 10 + 1 / 25, 1 / 100 + 1 / 5, 1 / 50 + 1 / 5]
    moved_us = sum(seconds) / 16 * 1e6
    units = {"bytes": 26, "requests": len(ACCESSES)}[amount]
    assert means[1] - means[0] == pytest.approx(moved_us / units * 1e3)
