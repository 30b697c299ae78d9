"""`tracekit simulate tiers` on traces small enough to place by hand, and `--vary`."""

import json
import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import tomli_w
from msgspec import to_builtins

from tests.command_line import invoke, succeed
from tests.simulate.traces import Access, tier_trace
from tests.traces import Row, json_of, rows_of, written
from tracekit import tables
from tracekit.errors import InputError, UsageError
from tracekit.model import tier_study
from tracekit.model.changes import Change
from tracekit.model.tier_mixes import Tier, read_extents
from tracekit.model.tier_study import TierOptions, parse_vary
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


def rows(folder: TraceFolder, name: str) -> list[Row]:
    return rows_of(folder.table(f"simulations/{name}"))


def run(folder: TraceFolder, **options: Any) -> dict[str, Any]:
    result: dict[str, Any] = to_builtins(simulate_tiers(folder, TierOptions(**SMALL | options)))
    return result


@pytest.fixture
def folder(tmp_path: Path) -> TraceFolder:
    return tier_trace(tmp_path / "trace", ACCESSES)


def test_reads_go_to_pcm_and_writes_to_flash(folder: TraceFolder) -> None:
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
    assert without["mix"] == "100% ssd-emlc"
    gain = best["iops_per_price"] / without["iops_per_price"] - 1
    assert result["headline"][1].endswith(f"a gain of {gain * 100:.1f}%.")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({}, None),  # four extents, steps of a quarter
        (
            {"step_percent": 10},
            "The capacity is 4 extents of 64 KiB, too few for mixes in steps of 10%, which hold"
            " whole extents.",
        ),
        (
            {"extent_bytes": 1 << 20, "step_percent": 50},
            "The capacity is 1 extent of 1 MiB, too few for mixes in steps of 50%, which hold"
            " whole extents; take smaller ones, --extent 512KiB or less.",
        ),
        ({"step_percent": 10, "capacity_bytes": 640 << 10}, None),
    ],
)
def test_too_few_extents_for_a_mix_are_said_first(
    options: dict[str, int], line: str | None, folder: TraceFolder
) -> None:
    first, *others = run(folder, **options)["headline"]
    if line is None:
        assert first.startswith("Static: without")
    else:
        assert (first, len(others)) == (line, 2)


def test_one_window_and_tiers_in_the_wrong_order_are_said(folder: TraceFolder) -> None:
    said = run(folder, is_dynamic=True, window_s=7200.0)["headline"]
    assert said[0].startswith("Dynamic: the whole trace is in one window of 2 h 0 min, so")
    with pytest.raises(UsageError, match="--tiers: hdd-15k is slower than ssd-pcm"):
        run(folder, tiers=("hdd-15k", "ssd-emlc", "ssd-pcm"))


def test_tables_follow_the_schema_and_hold_no_nan(folder: TraceFolder) -> None:
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
        for row in table.to_pylist():
            assert all(math.isfinite(value) for value in row.values() if type(value) is float), row
    with connect(folder) as connection:
        assert set(schemas) < set(views(connection))


def test_dynamic_learns_from_the_first_window(folder: TraceFolder) -> None:
    # GIVEN all on disk at first, and moves enough
    result = run(folder, is_dynamic=True, window_s=1.0)
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


@pytest.mark.parametrize(
    ("costs", "up", "down"),
    [
        ({}, 1, 1),
        ({"promotion_cost": 3.0, "demotion_cost": 0.5, "migration_cost": 2.0}, 2 * 3, 2 * 0.5),
    ],
)
def test_moves_that_are_charged_cost_time(
    folder: TraceFolder, costs: dict[str, float], up: float, down: float
) -> None:
    run(folder, is_dynamic=True, window_s=1.0, charges_migration=True, **costs)
    mixes = {tuple(row["share_ratio"]): row for row in rows(folder, "tiers")}
    # Extents 0 and 1 change places with 3 and 2: 16 blocks each, read there and written here.
    moved_us = up * 16 * (5000 + 128.3 + 5000 + 37.1) + down * 16 * (6.7 + 5000 + 108 + 5000)
    served_us = (2 + 1) * 5000 + 7 * (2 * 6.7 + 37.1) + 2 * 5000
    found = mixes[0.25, 0.25, 0.5]["dynamic_latency_avg_ns"]
    assert found == pytest.approx((served_us + moved_us) / 26 * 1e3)


def test_a_later_run_without_dynamic_leaves_no_old_windows(folder: TraceFolder) -> None:
    run(folder, is_dynamic=True, window_s=1.0)
    run(folder)
    assert not folder.has("simulations/tiers_windows")
    assert {row["dynamic_iops_per_price"] for row in rows(folder, "tiers")} == {None}


def test_extents_count_bytes_across_borders_or_requests_where_they_begin(tmp_path: Path) -> None:
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


def test_skew_is_the_share_of_the_busiest_extents(folder: TraceFolder) -> None:
    run(folder)
    curve = [row for row in rows(folder, "tiers_skew") if row["role"] == "all"]
    reads = [row["traffic_ratio"] for row in curve if row["operation"] == "read"]
    assert reads == pytest.approx([16 / 17, 1, 1, 1])
    assert [row["capacity_ratio"] for row in curve[:4]] == [0.25, 0.5, 0.75, 1.0]


def test_sensitivity_changes_one_parameter_at_a_time(folder: TraceFolder) -> None:
    run(folder)
    found = rows(folder, "tiers_sensitivity")
    assert len(found) == 3 * 3 * 2
    cheap = next(r for r in found if r["parameter"] == "price_per_gb" and r["factor"] == 0.5)
    assert (cheap["tier"], cheap["value"]) == ("ssd-pcm", 12.0)
    # PCM at half the price pays for both extents that are read: two of each cost 9
    assert cheap["mix"] == "50% ssd-pcm, 50% ssd-emlc"
    assert cheap["iops_per_price"] == pytest.approx(1e6 / ((17 * 6.7 + 9 * 37.1) / 26) / 9)


@pytest.mark.parametrize("operation", ["read", "write"])
def test_one_extent_of_one_kind_has_an_answer(tmp_path: Path, operation: str) -> None:
    result = run(tier_trace(tmp_path / "trace", [(0, operation, 7, 4096)]), is_dynamic=True)
    best = result["configurations"]["static"]["best"]
    assert best["mix"] == ("100% ssd-pcm" if operation == "read" else "100% ssd-emlc")
    assert result["extents"] == 1


def test_two_tiers_need_no_flash_and_spare_capacity_stays_unused(folder: TraceFolder) -> None:
    result = run(folder, tiers=("ssd-pcm", "hdd-15k"))
    assert result["configurations"]["static"]["best"]["mix"] == "100% ssd-pcm"
    assert len(rows(folder, "tiers")) == 5
    # GIVEN twice the capacity that was touched, THEN a quarter of PCM holds two extents
    run(folder, capacity_bytes=8 * 65536)
    mixes = {tuple(row["share_ratio"]): row["extents"] for row in rows(folder, "tiers")}
    assert mixes[0.25, 0.0, 0.75] == [2, 0, 2]


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
        ({"step_percent": 3}, "no multiple of 3%"),
        ({"capacity_bytes": 65536}, "holds 1 extents, the trace touches 4"),
        ({"is_dynamic": True, "window_s": float("nan")}, "--window is nan"),
        ({"is_dynamic": True, "migration_mib_s": float("inf")}, "--migration is inf"),
        ({"is_dynamic": True, "window_s": 0.001}, "no extent of 64 KiB can move"),
        ({"window_s": 60.0}, "--window is of dynamic tiering only"),
        ({"migration_mib_s": 1.0}, "--migration is of dynamic tiering only"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run(tier_trace(tmp_path / "trace", ACCESSES), **options)


def test_more_than_four_tiers_within_limits(
    folder: TraceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN five tiers, whose mixes are placed one by one
    names = ("dram", "ssd-optane", "ssd-pcm", "ssd-emlc", "hdd-15k")
    # THEN there are as many mixes as ways to divide four quarters among them
    assert run(folder, tiers=names)["mixes"] == 70
    # AND work beyond the limit (70 mixes, 4 extents, 31 runs) is refused
    monkeypatch.setattr(tier_study, "MAX_LOOP_WORK", 70 * 4 * 31 - 1)
    with pytest.raises(UsageError, match="5 tiers with so many mixes and extents"):
        run(folder, tiers=names)
    monkeypatch.setattr(tier_study, "MAX_WORK", 100)
    with pytest.raises(UsageError, match="15 mixes of 4 extents in 8 windows would take long"):
        run(folder, is_dynamic=True, window_s=1.0)


def test_the_command_prints_the_answer_or_all_of_it(folder: TraceFolder) -> None:
    words = ["simulate", "tiers", str(folder.path), "--extent", "64KiB", "--step", "25"]
    plain, whole = succeed(*words), json.loads(invoke(*words, "--json").stdout)
    assert whole["headline"] == plain.stdout.splitlines()
    assert whole == json_of(folder.path / "simulations" / "tiers.json")


DEVICES: dict[str, dict[str, float]] = {
    "ssd-pcm": {"read_latency_us": 6.7, "write_latency_us": 128.3, "price_per_gb": 24.0},
    "ssd-emlc": {"read_latency_us": 108.0, "write_latency_us": 37.1, "price_per_gb": 6.0},
    "hdd-15k": {"read_latency_us": 5000.0, "write_latency_us": 5000.0, "price_per_gb": 1.0},
}


def what_if(path: Path, devices: dict[str, dict[str, float]]) -> Path:
    path.write_text(tomli_w.dumps({"devices": devices}))
    return path


@pytest.mark.parametrize("amount", ["bytes", "requests"])
def test_moving_takes_the_time_of_the_bandwidths(tmp_path: Path, amount: str) -> None:
    rates = {"ssd-pcm": 100, "ssd-emlc": 50, "hdd-15k": 10}
    devices = {
        name: DEVICES[name] | {"read_mib_s": rate, "write_mib_s": rate / 2}
        for name, rate in rates.items()
    }
    file = what_if(tmp_path / "what-if.toml", devices)
    moved = {"is_dynamic": True, "window_s": 1.0, "amount": amount}
    means = []
    for place, options in (
        ("free", {}),
        ("charged", {"charges_migration": True, "moves_by": "bandwidth"}),
    ):
        folder = tier_trace(tmp_path / place, ACCESSES)
        run(folder, **moved, **options, what_if=file)
        mixes = {tuple(row["share_ratio"]): row for row in rows(folder, "tiers")}
        means.append(mixes[0.25, 0.25, 0.5]["dynamic_latency_avg_ns"])
    # THEN each of four moves of 64 KiB is read at one rate and written at the other
    seconds = [1 / 10 + 1 / 50, 1 / 10 + 1 / 25, 1 / 100 + 1 / 5, 1 / 50 + 1 / 5]
    moved_us = sum(seconds) / 16 * 1e6
    units = {"bytes": 26, "requests": len(ACCESSES)}[amount]
    assert means[1] - means[0] == pytest.approx(moved_us / units * 1e3)


KIB = 1024
BASE: dict[str, Any] = {
    "extent_bytes": 64 * KIB,
    "step_percent": 25,
    "is_dynamic": True,
    "window_s": 2.0,
    "migration_mib_s": 0.125,
    "charges_migration": True,
}
# What is hot changes at second 8, so that windows and moves matter.
SHIFTING: list[Access] = [
    *[(second, "read", second // 8, 16 * KIB) for second in range(16)],
    *[(second, "write", 5 - second // 8, 8 * KIB) for second in range(16)],
    *[(second, "read", 6 + second % 2, 4 * KIB) for second in range(16)],
]


def varied(path: Path, text: str, **options: Any) -> list[Row]:
    """Return the rows of what the user varied."""
    (vary,) = parse_vary([text])
    folder = tier_trace(path, SHIFTING)
    simulate_tiers(folder, TierOptions(**{**BASE, **options}, vary=(vary,)))
    named = {"tier": vary.device, "parameter": vary.parameter, "factor": vary.factor}
    return [row for row in rows(folder, "tiers_sensitivity") if named.items() <= row.items()]


def run_changed(path: Path, **options: Any) -> dict[str, Any]:
    return run(tier_trace(path, SHIFTING), **BASE | options)


@pytest.mark.parametrize(
    ("text", "value", "same", "methods"),
    [
        ("extent_bytes=2", 128 * KIB, {"extent_bytes": 128 * KIB}, ["static", "dynamic"]),
        ("capacity_bytes=1.5", 6 * 96 * KIB, {"capacity_bytes": 6 * 96 * KIB}, ["static"]),
        ("window_s=2", 4.0, {"window_s": 4.0}, ["dynamic"]),
        ("migration_mib_s=0.5", 0.0625, {"migration_mib_s": 0.0625}, ["dynamic"]),
        ("migration_cost=0.001", 0.001, {"migration_cost": 0.001}, ["dynamic"]),
        ("promotion_cost=8", 8.0, {"promotion_cost": 8.0}, ["dynamic"]),
        ("demotion_cost=0.125", 0.125, {"demotion_cost": 0.125}, ["dynamic"]),
    ],
)
def test_a_change_of_the_system_is_a_run_with_that_value(
    tmp_path: Path, text: str, value: float, same: dict[str, Any], methods: list[str]
) -> None:
    found = {row["method"]: row for row in varied(tmp_path / "varied", text)}
    named = run_changed(tmp_path / "same", **same)["configurations"]
    assert set(methods) <= set(found)
    for method, row in found.items():
        some = named[method]["best with ssd-pcm"]
        none = named[method]["best without ssd-pcm"]
        assert row["value"] == value
        assert row["without_iops_per_price"] == none["iops_per_price"]
        for key in ("mix", "iops_per_price", "promoted_bytes", "demoted_bytes"):
            assert row[key] == some.get(key)


@pytest.mark.parametrize("key", ["read_latency_us", "write_latency_us", "price_per_gb"])
@pytest.mark.parametrize("tier", ["ssd-pcm", "ssd-emlc", "hdd-15k"])
def test_a_change_of_a_tier_is_a_run_with_that_device(tmp_path: Path, tier: str, key: str) -> None:
    found = varied(tmp_path / "varied", f"{tier}.{key}=3")
    assert [row["method"] for row in found] == ["static", "dynamic"]
    changed = DEVICES | {tier: DEVICES[tier] | {key: DEVICES[tier][key] * 3}}
    file = what_if(tmp_path / "what-if.toml", changed)
    named = run_changed(tmp_path / "same", what_if=file)["configurations"]
    for row in found:
        assert row["value"] == DEVICES[tier][key] * 3
        some = named[row["method"]]["best with ssd-pcm"]
        assert (row["mix"], row["iops_per_price"]) == (some["mix"], some["iops_per_price"])


@pytest.mark.parametrize("moves_by", ["latency", "bandwidth"])
@pytest.mark.parametrize("operation", ["read", "write"])
def test_a_changed_bandwidth_is_a_run_with_it(
    tmp_path: Path, operation: str, moves_by: str
) -> None:
    # GIVEN disks that need 1,000 of their 5,000 us for the transfer of 4 KiB
    rates = {"ssd-pcm": 800.0, "hdd-15k": 3.90625}
    devices = {
        name: DEVICES[name] | {"read_mib_s": rate, "write_mib_s": rate}
        for name, rate in rates.items()
    }
    options = {"tiers": ("ssd-pcm", "hdd-15k"), "moves_by": moves_by}
    key = f"{operation}_mib_s"
    before = what_if(tmp_path / "before.toml", devices)
    found = varied(tmp_path / "varied", f"hdd-15k.{key}=2", **options, what_if=before)
    # WHEN they transfer twice as fast, THEN 4 KiB take half of that less, and so does moving them
    devices["hdd-15k"] |= {key: 2 * rates["hdd-15k"], f"{operation}_latency_us": 4500.0}
    named = run_changed(
        tmp_path / "same", **options, what_if=what_if(tmp_path / "after.toml", devices)
    )
    assert [row["method"] for row in found] == ["static", "dynamic"]
    for row in found:
        assert row["value"] == 7.8125
        some = named["configurations"][row["method"]]["best with ssd-pcm"]
        assert row["mix"] == some["mix"]
        assert row["iops_per_price"] == pytest.approx(some["iops_per_price"], rel=1e-12)


def test_a_latency_is_never_below_nothing() -> None:
    # GIVEN a latency that is shorter than 4 KiB take at the bandwidth: all of it is transfer
    tier = Tier("odd", 3.0, 3.0, 1.0, 100.0, 100.0)
    assert tier.changed("read_mib_s", 4.0) == Tier("odd", 0.75, 3.0, 1.0, 400.0, 100.0)
    assert tier.changed("write_mib_s", 0.5) == Tier("odd", 3.0, 6.0, 1.0, 100.0, 50.0)


def test_a_bandwidth_that_is_not_known_is_named(tmp_path: Path) -> None:
    file = written(
        tmp_path / "what-if.toml",
        "[devices.bare]\nread_latency_us = 9\nwrite_latency_us = 9\nprice_per_gb = 2\n",
    )
    options = {"tiers": ("bare", "hdd-15k"), "what_if": file}
    with pytest.raises(UsageError, match="the tier 'bare' has no read_mib_s"):
        varied(tmp_path / "a", "bare.read_mib_s=2", **options)
    with pytest.raises(UsageError, match="the tier 'bare' has no read_mib_s"):
        run_changed(tmp_path / "b", **options, moves_by="bandwidth")
    varied(tmp_path / "c", "hdd-15k.read_mib_s=2", **options)


@pytest.mark.parametrize(
    "options", [{"promotion_cost": 2.0}, {"demotion_cost": 0.0}, {"moves_by": "bandwidth"}]
)
def test_costs_of_uncharged_moves_are_rejected(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="changes nothing while moving delays no request"):
        run_changed(tmp_path / "trace", **options, charges_migration=False)
    with pytest.raises(UsageError, match="--promotion-cost is nan"):
        run_changed(tmp_path / "other", promotion_cost=float("nan"))


def test_charged_moves_cost_in_proportion(tmp_path: Path) -> None:
    # GIVEN the one mix that is half PCM and half disk of two tiers
    def time_ns(cost: float) -> float:
        folder = tier_trace(tmp_path / f"cost-{cost}", SHIFTING)
        options = {**BASE, "step_percent": 50, "tiers": ("ssd-pcm", "hdd-15k")}
        simulate_tiers(folder, TierOptions(**options, migration_cost=cost))
        row = next(row for row in rows(folder, "tiers") if row["share_ratio"] == [0.5, 0.5])
        return float(row["dynamic_latency_avg_ns"])

    # THEN twice the cost adds twice the time
    free, once, twice = (time_ns(cost) for cost in (0, 1, 2))
    assert once > free
    assert twice - free == pytest.approx(2 * (once - free))


def test_what_moved_is_reported_in_words_and_figures(tmp_path: Path) -> None:
    result = run_changed(tmp_path / "trace")
    some = result["configurations"]["dynamic"]["best with ssd-pcm"]
    folder = TraceFolder(tmp_path / "trace")
    key = rows_of(folder.table("simulations/tiers_key"))
    row = next(
        r for r in key if (r["configuration"], r["method"]) == ("best with ssd-pcm", "dynamic")
    )
    assert row["promoted_bytes"] == some["promoted_bytes"]
    assert row["demoted_bytes"] == some["demoted_bytes"]
    assert {r["promoted_bytes"] for r in key if r["method"] == "static"} == {None}
    assert any("to faster tiers" in line for line in result["headline"])


STATIC = {"is_dynamic": False, "window_s": 7200.0, "migration_mib_s": 41.0}


def test_each_is_parsed_once_in_the_users_order() -> None:
    assert parse_vary(["window_s=2,0.5", "my.disk.price_per_gb=2", "window_s=2"]) == (
        Change(None, "window_s", 2.0),
        Change(None, "window_s", 0.5),
        Change("my.disk", "price_per_gb", 2.0),
    )


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("extent=2", {}, "no parameter 'extent' in 'extent=2'"),
        ("ssd-pcm.price=2", {}, "no parameter 'ssd-pcm.price'"),
        (".price_per_gb=2", {}, "no parameter '.price_per_gb'"),
        ("extent_bytes", {}, "no parameter 'extent_bytes'"),
        ("extent_bytes=", {}, "'' in 'extent_bytes=' is not a number"),
        ("extent_bytes=nan", {}, "nan in 'extent_bytes=nan' is not from 0.001 to 1000"),
        ("migration_cost=0", {}, "0 in 'migration_cost=0' is not from 0.001 to 1000"),
        ("extent_bytes=0.25", {}, "--extent is 16 KiB"),
        ("capacity_bytes=0.5", {}, "holds 3 extents, the trace touches 6"),
        ("ssd-pcm.read_mib=2", {}, "no parameter 'ssd-pcm.read_mib'"),
        ("promotion_cost=2", {"charges_migration": False}, "promotion_cost changes nothing"),
        ("demotion_cost=2", STATIC, "demotion_cost changes dynamic tiering only"),
        ("dram.price_per_gb=2", {}, "'dram' is not one of the tiers"),
        ("window_s=2", STATIC, "window_s changes dynamic tiering only"),
        ("migration_cost=2", {"charges_migration": False}, "changes nothing while moving"),
        ("migration_mib_s=0.01", {}, "no extent of 64 KiB can move"),
    ],
)
def test_bad_vary_is_named(
    tmp_path: Path, text: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        varied(tmp_path / "trace", text, **options)
    assert not (tmp_path / "trace" / "simulations" / "tiers.json").exists()


def test_too_many_changes_are_rejected() -> None:
    factors = ",".join(str(number) for number in range(1, 66))
    with pytest.raises(UsageError, match="65 changes are more than 64"):
        parse_vary([f"window_s={factors}"])
