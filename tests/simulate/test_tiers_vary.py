"""`tracekit simulate tiers --vary`: each change must give what a run with that value gives."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec import to_builtins

from tests.simulate.tier_traces import Access, tier_trace
from tracekit.errors import UsageError
from tracekit.model.changes import Change
from tracekit.model.tier_mixes import Tier
from tracekit.model.tier_study import TierOptions, parse_vary
from tracekit.model.tiers import simulate_tiers
from tracekit.store import TraceFolder

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
ACCESSES: list[Access] = [
    *[(second, "read", second // 8, 16 * KIB) for second in range(16)],
    *[(second, "write", 5 - second // 8, 8 * KIB) for second in range(16)],
    *[(second, "read", 6 + second % 2, 4 * KIB) for second in range(16)],
]


def changes(folder: TraceFolder) -> list[dict[str, Any]]:
    table = pq.read_table(folder.table("simulations/tiers_sensitivity"))
    return [dict(row) for row in table.to_pylist()]


def varied(path: Path, text: str, **options: Any) -> list[dict[str, Any]]:
    """Return the rows of what the user varied."""
    folder = tier_trace(path, ACCESSES)
    simulate_tiers(folder, TierOptions(**{**BASE, **options}, vary=parse_vary([text])))
    vary = parse_vary([text])[0]
    return [
        row
        for row in changes(folder)
        if (row["tier"], row["parameter"], row["factor"])
        == (vary.device, vary.parameter, vary.factor)
    ]


def run(path: Path, **options: Any) -> dict[str, Any]:
    folder = tier_trace(path, ACCESSES)
    result: dict[str, Any] = to_builtins(simulate_tiers(folder, TierOptions(**BASE | options)))
    return result


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
    named = run(tmp_path / "same", **same)["configurations"]
    assert set(methods) <= set(found)
    for method, row in found.items():
        some = named[method]["best with ssd-pcm"]
        none = named[method]["best without ssd-pcm"]
        assert row["value"] == value
        assert row["mix"] == some["mix"]
        assert row["iops_per_price"] == some["iops_per_price"]
        assert row["without_iops_per_price"] == none["iops_per_price"]
        for moved in ("promoted_bytes", "demoted_bytes"):
            assert row[moved] == some.get(moved)


@pytest.mark.parametrize("key", ["read_latency_us", "write_latency_us", "price_per_gb"])
@pytest.mark.parametrize("tier", ["ssd-pcm", "ssd-emlc", "hdd-15k"])
def test_a_change_of_a_tier_is_a_run_with_that_device(tmp_path: Path, tier: str, key: str) -> None:
    values = {
        "ssd-pcm": {"read_latency_us": 6.7, "write_latency_us": 128.3, "price_per_gb": 24.0},
        "ssd-emlc": {"read_latency_us": 108.0, "write_latency_us": 37.1, "price_per_gb": 6.0},
        "hdd-15k": {"read_latency_us": 5000.0, "write_latency_us": 5000.0, "price_per_gb": 1.0},
    }
    found = varied(tmp_path / "varied", f"{tier}.{key}=3")
    assert [row["method"] for row in found] == ["static", "dynamic"]
    file = tmp_path / "what-if.toml"
    text = ""
    for name, device in values.items():
        text += f'[devices."{name}"]\n'
        for one, value in device.items():
            text += f"{one} = {value * 3 if (name, one) == (tier, key) else value}\n"
    file.write_text(text)
    named = run(tmp_path / "same", what_if=file)["configurations"]
    for row in found:
        assert row["value"] == values[tier][key] * 3
        some = named[row["method"]]["best with ssd-pcm"]
        assert (row["mix"], row["iops_per_price"]) == (some["mix"], some["iops_per_price"])


@pytest.mark.parametrize("moves_by", ["latency", "bandwidth"])
@pytest.mark.parametrize("operation", ["read", "write"])
def test_a_changed_bandwidth_is_a_run_with_that_device(
    tmp_path: Path, operation: str, moves_by: str
) -> None:
    # GIVEN disks that need 1,000 of their 5,000 us for the transfer of 4 KiB
    devices: dict[str, dict[str, float]] = {
        "ssd-pcm": {"read_latency_us": 6.7, "write_latency_us": 128.3, "price_per_gb": 24.0},
        "hdd-15k": {"read_latency_us": 5000.0, "write_latency_us": 5000.0, "price_per_gb": 1.0},
    }
    rates = {"ssd-pcm": 800.0, "hdd-15k": 3.90625}
    for name, device in devices.items():
        device |= {"read_mib_s": rates[name], "write_mib_s": rates[name]}

    def file(path: Path) -> Path:
        tables = [
            f'[devices."{name}"]\n' + "".join(f"{key} = {value}\n" for key, value in one.items())
            for name, one in devices.items()
        ]
        path.write_text("".join(tables))
        return path

    options = {"tiers": ("ssd-pcm", "hdd-15k"), "moves_by": moves_by}
    key = f"{operation}_mib_s"
    before = file(tmp_path / "before.toml")
    found = varied(tmp_path / "varied", f"hdd-15k.{key}=2", **options, what_if=before)
    # WHEN they transfer twice as fast, THEN 4 KiB take half of that less, and so does moving them
    devices["hdd-15k"] |= {key: 2 * rates["hdd-15k"], f"{operation}_latency_us": 4500.0}
    named = run(tmp_path / "same", **options, what_if=file(tmp_path / "after.toml"))
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
    file = tmp_path / "what-if.toml"
    file.write_text("[devices.bare]\nread_latency_us = 9\nwrite_latency_us = 9\nprice_per_gb = 2\n")
    options = {"tiers": ("bare", "hdd-15k"), "what_if": file}
    with pytest.raises(UsageError, match="the tier 'bare' has no read_mib_s"):
        varied(tmp_path / "a", "bare.read_mib_s=2", **options)
    with pytest.raises(UsageError, match="the tier 'bare' has no read_mib_s"):
        run(tmp_path / "b", **options, moves_by="bandwidth")
    varied(tmp_path / "c", "hdd-15k.read_mib_s=2", **options)


@pytest.mark.parametrize(
    "options", [{"promotion_cost": 2.0}, {"demotion_cost": 0.0}, {"moves_by": "bandwidth"}]
)
def test_costs_of_moves_that_are_not_charged_are_refused(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match="changes nothing while moving delays no request"):
        run(tmp_path / "trace", **options, charges_migration=False)
    with pytest.raises(UsageError, match="--promotion-cost is nan"):
        run(tmp_path / "other", promotion_cost=float("nan"))


def test_charged_moves_cost_in_proportion(tmp_path: Path) -> None:
    # GIVEN the one mix that is half PCM and half disk of two tiers
    def time_ns(cost: float) -> float:
        folder = tier_trace(tmp_path / f"cost-{cost}", ACCESSES)
        options = {**BASE, "step_percent": 50, "tiers": ("ssd-pcm", "hdd-15k")}
        simulate_tiers(folder, TierOptions(**options, migration_cost=cost))
        table = pq.read_table(folder.table("simulations/tiers")).to_pylist()
        row = next(row for row in table if row["share_ratio"] == [0.5, 0.5])
        return float(row["dynamic_latency_avg_ns"])

    # THEN twice the cost adds twice the time
    free, once, twice = (time_ns(cost) for cost in (0, 1, 2))
    assert once > free
    assert twice - free == pytest.approx(2 * (once - free))


def test_what_moved_is_told_in_words_and_figures(tmp_path: Path) -> None:
    result = run(tmp_path / "trace")
    some = result["configurations"]["dynamic"]["best with ssd-pcm"]
    folder = TraceFolder(tmp_path / "trace")
    key = pq.read_table(folder.table("simulations/tiers_key")).to_pylist()
    row = next(
        r for r in key if (r["configuration"], r["method"]) == ("best with ssd-pcm", "dynamic")
    )
    assert row["promoted_bytes"] == some["promoted_bytes"]
    assert row["demoted_bytes"] == some["demoted_bytes"]
    assert {r["promoted_bytes"] for r in key if r["method"] == "static"} == {None}
    assert any("to faster tiers" in line for line in result["headline"])


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
        ("demotion_cost=2", {"is_dynamic": False}, "demotion_cost changes dynamic tiering only"),
        ("dram.price_per_gb=2", {}, "'dram' is not one of the tiers"),
        ("window_s=2", {"is_dynamic": False}, "window_s changes dynamic tiering only"),
        ("migration_cost=2", {"charges_migration": False}, "changes nothing while moving"),
        ("migration_mib_s=0.01", {}, "no extent of 64 KiB can move"),
    ],
)
def test_what_cannot_be_varied_is_named(
    tmp_path: Path, text: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        varied(tmp_path / "trace", text, **options)
    assert not (tmp_path / "trace" / "simulations" / "tiers.json").exists()


def test_too_many_changes_are_refused() -> None:
    factors = ",".join(str(number) for number in range(1, 66))
    with pytest.raises(UsageError, match="65 changes are more than 64"):
        parse_vary([f"window_s={factors}"])
