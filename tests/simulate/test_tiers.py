"""`tracekit simulate tiers` on traces small enough to place by hand."""

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import to_builtins

from tests.command_line import invoke
from tests.simulate.tier_traces import Access, tier_trace
from tracekit import tables
from tracekit.errors import InputError, UsageError
from tracekit.model import tier_study
from tracekit.model.tier_mixes import read_extents
from tracekit.model.tier_study import TierOptions
from tracekit.model.tiers import simulate_tiers
from tracekit.query import connect, views
from tracekit.store import TraceFolder

SMALL = {"extent_bytes": 65536, "step_percent": 25}
# Extent 0 is read most, extent 1 written most, 2 and 3 are cold.
ACCESSES: list[Access] = [
    *[(second, "read", 0, 8192) for second in range(8)],
    *[(second, "write", 1, 4096) for second in range(8)],
    (1, "read", 2, 4096),
    (2, "write", 3, 4096),
]


def rows(folder: TraceFolder, name: str) -> list[dict[str, Any]]:
    table = pq.read_table(folder.table(f"simulations/{name}"))
    return [dict(row) for row in table.to_pylist()]


def run(folder: TraceFolder, **options: Any) -> dict[str, Any]:
    result: dict[str, Any] = to_builtins(simulate_tiers(folder, TierOptions(**SMALL | options)))
    return result


def test_reads_go_to_pcm_and_writes_to_flash(tmp_path: Path) -> None:
    # GIVEN four extents and mixes in quarters
    folder = tier_trace(tmp_path / "trace", ACCESSES)
    # WHEN the tiers are simulated
    result = run(folder)
    # THEN the best is one extent of PCM for the reads, the rest on flash: (16 reads at 6.7, 8
    # writes at 37.1, one read at 108, one write at 37.1) / 26 = 21.119 us for a price of 10.5
    best = result["configurations"]["static"]["best"]
    assert best["share_ratio"] == {"ssd-pcm": 0.25, "ssd-emlc": 0.75, "hdd-15k": 0.0}
    assert best["latency_avg_ns"] == pytest.approx((16 * 6.7 + 9 * 37.1 + 108) / 26 * 1e3)
    assert best["iops_per_price"] == pytest.approx(1e6 / ((16 * 6.7 + 9 * 37.1 + 108) / 26) / 10.5)
    tables = {row["extent"]: row["tier"] for row in rows(folder, "tiers_extents")}
    assert tables == {0: "ssd-pcm", 1: "ssd-emlc", 2: "ssd-emlc", 3: "ssd-emlc"}
    # AND the best without PCM is all flash, which the headline compares with
    without = result["configurations"]["static"]["best without ssd-pcm"]
    assert without["mix"] == "100 % ssd-emlc"
    gain = best["iops_per_price"] / without["iops_per_price"] - 1
    assert result["headline"][1].endswith(f"a gain of {gain * 100:.1f} %.")


def test_tables_follow_the_schema_and_hold_no_nan(tmp_path: Path) -> None:
    folder = tier_trace(tmp_path / "trace", ACCESSES)
    run(folder, is_dynamic=True, window_s=1.0)
    schemas = {
        "tiers": tables.TIERS,
        "tiers_key": tables.TIERS_KEY,
        "tiers_extents": tables.TIERS_EXTENTS,
        "tiers_skew": tables.TIERS_SKEW,
        "tiers_windows": tables.TIERS_WINDOWS,
        "tiers_sensitivity": tables.TIERS_SENSITIVITY,
    }
    for name, expected in schemas.items():
        table = pq.read_table(folder.table(f"simulations/{name}"))
        assert table.schema == expected
        for field in table.schema:
            if pa.types.is_floating(field.type):
                values = table[field.name].to_pylist()
                assert all(math.isfinite(value) for value in values), (name, field.name)
    with connect(folder) as connection:
        assert set(schemas) < set(views(connection))


def test_dynamic_learns_from_the_first_window(tmp_path: Path) -> None:
    # GIVEN all on disk at first, and moves enough
    folder = tier_trace(tmp_path / "trace", ACCESSES)
    result = run(folder, is_dynamic=True, window_s=1.0)
    # THEN all of one kind is the same in both methods
    static, dynamic = result["configurations"]["static"], result["configurations"]["dynamic"]
    for name in ("all ssd-pcm", "all ssd-emlc", "all hdd-15k"):
        assert dynamic[name]["iops_per_price"] == pytest.approx(static[name]["iops_per_price"])
    # AND with a quarter each of PCM and flash the first window is served from where it happened
    # to lie (flash holds extent 2, PCM 3), the next as it should be
    mixes = {tuple(row["share_ratio"]): row for row in rows(folder, "tiers")}
    time_us = (2 + 1) * 5000 + 7 * (2 * 6.7 + 37.1) + 2 * 5000
    row = mixes[0.25, 0.25, 0.5]
    assert row["dynamic_latency_avg_ns"] == pytest.approx(time_us / 26 * 1e3)
    assert (row["promoted_bytes"], row["demoted_bytes"]) == (2 * 65536, 2 * 65536)


def test_moves_that_are_charged_cost_time(tmp_path: Path) -> None:
    folder = tier_trace(tmp_path / "trace", ACCESSES)
    run(folder, is_dynamic=True, window_s=1.0, charges_migration=True)
    mixes = {tuple(row["share_ratio"]): row for row in rows(folder, "tiers")}
    # Extents 0 and 1 change places with 3 and 2: 16 blocks each, read there and written here.
    moved_us = 16 * (5000 + 128.3 + 6.7 + 5000 + 5000 + 37.1 + 108 + 5000)
    time_us = (2 + 1) * 5000 + 7 * (2 * 6.7 + 37.1) + 2 * 5000 + moved_us
    found = mixes[0.25, 0.25, 0.5]["dynamic_latency_avg_ns"]
    assert found == pytest.approx(time_us / 26 * 1e3)


def test_a_later_run_without_dynamic_leaves_no_old_windows(tmp_path: Path) -> None:
    folder = tier_trace(tmp_path / "trace", ACCESSES)
    run(folder, is_dynamic=True, window_s=1.0)
    run(folder)
    assert not folder.has("simulations/tiers_windows")
    assert {row["dynamic_iops_per_price"] for row in rows(folder, "tiers")} == {None}


def test_extents_count_bytes_across_their_border_or_requests_where_they_begin(
    tmp_path: Path,
) -> None:
    # GIVEN a request of 96 KiB from the start of extent 1 on
    folder = tier_trace(tmp_path / "trace", [(0, "read", 1, 98304), (5, "write", 1, 4096)])
    by_bytes = read_extents(folder, extent_bytes=65536, window_ns=10**9, amount="bytes")
    assert by_bytes.number.tolist() == [1, 2]
    assert by_bytes.reads.tolist() == [65536, 32768]
    assert by_bytes.writes.tolist() == [4096, 0]
    assert by_bytes.window_numbers.tolist() == [0, 5]
    assert by_bytes.windows.first_item.tolist() == [0, 2, 3]
    by_requests = read_extents(folder, extent_bytes=65536, window_ns=None, amount="requests")
    assert by_requests.reads.tolist() == [1, 0]
    assert by_requests.windows.first_item.tolist() == [0, 2]


@pytest.mark.parametrize("extent_bytes", [1 << 31, 1 << 40, 1 << 49])
def test_extents_may_be_larger_than_2_gib(tmp_path: Path, extent_bytes: int) -> None:
    # GIVEN requests at the start of a disk and 6 GiB on
    far = 6 * 2**30 // 65536
    folder = tier_trace(tmp_path / "trace", [(0, "read", 0, 4096), (1, "write", far, 8192)])
    found = read_extents(folder, extent_bytes=extent_bytes, window_ns=None, amount="bytes")
    # THEN they are three extents of 2 GiB apart, or in one
    assert found.number.tolist() == ([0, 3] if extent_bytes == 1 << 31 else [0])
    assert (int(found.reads.sum()), int(found.writes.sum())) == (4096, 8192)


def test_skew_is_the_share_of_the_busiest_extents(tmp_path: Path) -> None:
    folder = tier_trace(tmp_path / "trace", ACCESSES)
    run(folder)
    curve = [row for row in rows(folder, "tiers_skew") if row["role"] == "all"]
    reads = [row["traffic_ratio"] for row in curve if row["operation"] == "read"]
    assert reads == pytest.approx([16 / 17, 1, 1, 1])
    assert [row["capacity_ratio"] for row in curve[:4]] == [0.25, 0.5, 0.75, 1.0]


def test_sensitivity_changes_one_parameter_at_a_time(tmp_path: Path) -> None:
    folder = tier_trace(tmp_path / "trace", ACCESSES)
    run(folder)
    found = rows(folder, "tiers_sensitivity")
    assert len(found) == 3 * 3 * 2
    cheap = next(r for r in found if r["parameter"] == "price_per_gb" and r["factor"] == 0.5)
    assert (cheap["tier"], cheap["value"]) == ("ssd-pcm", 12.0)
    # PCM at half the price pays for both extents that are read: two of each cost 9
    assert cheap["mix"] == "50 % ssd-pcm, 50 % ssd-emlc"
    assert cheap["iops_per_price"] == pytest.approx(1e6 / ((17 * 6.7 + 9 * 37.1) / 26) / 9)


@pytest.mark.parametrize("operation", ["read", "write"])
def test_one_extent_of_one_kind_has_an_answer(tmp_path: Path, operation: str) -> None:
    result = run(tier_trace(tmp_path / "trace", [(0, operation, 7, 4096)]), is_dynamic=True)
    best = result["configurations"]["static"]["best"]
    assert best["mix"] == ("100 % ssd-pcm" if operation == "read" else "100 % ssd-emlc")
    assert result["extents"] == 1


def test_two_tiers_need_no_flash(tmp_path: Path) -> None:
    folder = tier_trace(tmp_path / "trace", ACCESSES)
    result = run(folder, tiers=("ssd-pcm", "hdd-15k"))
    assert result["configurations"]["static"]["best"]["mix"] == "100 % ssd-pcm"
    assert len(rows(folder, "tiers")) == 5


def test_prices_in_a_currency_give_a_total(tmp_path: Path) -> None:
    file = tmp_path / "what-if.toml"
    file.write_text(
        'currency = "EUR"\n[price_per_gb]\nssd-pcm = 2\nssd-emlc = 0.5\nhdd-15k = 0.1\n'
    )
    result = run(tier_trace(tmp_path / "trace", ACCESSES), what_if=file)
    flash = result["configurations"]["static"]["all ssd-emlc"]
    assert result["price_unit"] == "EUR per GB"
    assert flash["price_total"] == pytest.approx(4 * 65536 / 1e9 * 0.5)
    assert "IOPS per EUR/GB" in result["headline"][0]


def test_nothing_read_or_written_is_an_error(tmp_path: Path) -> None:
    folder = tier_trace(tmp_path / "trace", [(0, "flush", 0, 0)])
    with pytest.raises(InputError, match="nothing was read or written"):
        run(folder)
    assert not (folder.path / "simulations").exists()


def test_requests_that_no_disk_has_are_counted(tmp_path: Path) -> None:
    folder = tier_trace(tmp_path / "trace", [*ACCESSES, (9, "read", -1, 4096)])
    result = run(folder)
    assert result["left_out"] == {"impossible": 1}
    assert "left out: 1 requests with a place or length that no disk has" in result["assumptions"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tiers": ("ssd-pcm",)}, "2 to 8 different tiers"),
        ({"tiers": ("ssd-pcm", "ssd-pcm")}, "2 to 8 different tiers"),
        ({"extent_bytes": 4096}, "--extent is 4 KiB"),
        ({"step_percent": 3}, "no multiple of 3 %"),
        ({"capacity_bytes": 65536}, "holds 1 extents, the trace touches 4"),
        ({"is_dynamic": True, "window_s": float("nan")}, "--window is nan"),
        ({"is_dynamic": True, "migration_mib_s": float("inf")}, "--migration is inf"),
        ({"is_dynamic": True, "window_s": 0.001}, "no extent of 64 KiB can move"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run(tier_trace(tmp_path / "trace", ACCESSES), **options)


def test_more_than_four_tiers_within_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN five tiers, whose mixes are placed one by one
    folder = tier_trace(tmp_path / "trace", ACCESSES)
    tables = ("dram", "ssd-optane", "ssd-pcm", "ssd-emlc", "hdd-15k")
    # THEN there are as many mixes as ways to divide four quarters among them
    assert run(folder, tiers=tables)["mixes"] == 70
    # AND work beyond the limit (70 mixes, 4 extents, 31 runs) is refused
    monkeypatch.setattr(tier_study, "MAX_LOOP_WORK", 70 * 4 * 31 - 1)
    with pytest.raises(UsageError, match="5 tiers with so many mixes and extents"):
        run(folder, tiers=tables)


def test_dynamic_work_beyond_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tier_study, "MAX_WORK", 100)
    with pytest.raises(UsageError, match="15 mixes of 4 extents in 8 windows would take long"):
        run(tier_trace(tmp_path / "trace", ACCESSES), is_dynamic=True, window_s=1.0)


def test_spare_capacity_stays_unused_on_the_last_tier(tmp_path: Path) -> None:
    # GIVEN twice the capacity that was touched, THEN a quarter of PCM holds two extents
    folder = tier_trace(tmp_path / "trace", ACCESSES)
    run(folder, capacity_bytes=8 * 65536)
    mixes = {tuple(row["share_ratio"]): row["extents"] for row in rows(folder, "tiers")}
    assert mixes[0.25, 0.0, 0.75] == [2, 0, 2]


def test_the_command_prints_the_answer_or_all_of_it(tmp_path: Path) -> None:
    folder = tier_trace(tmp_path / "trace", ACCESSES)
    words = ["simulate", "tiers", str(folder.path), "--extent", "64KiB", "--step", "25"]
    plain = invoke(*words)
    assert plain.exit_code == 0
    whole = invoke(*words, "--json")
    assert json.loads(whole.stdout)["headline"] == plain.stdout.splitlines()
    saved = json.loads((folder.path / "simulations" / "tiers.json").read_text())
    assert saved == json.loads(whole.stdout)
