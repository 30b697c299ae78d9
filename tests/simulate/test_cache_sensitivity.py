"""The best split of a budget under other devices: by hand, by the plane, and bad input."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec import to_builtins

from tests.command_line import invoke
from tests.simulate.cache_traces import Request, make_trace
from tracekit.devices import load_profiles
from tracekit.errors import UsageError
from tracekit.model.cache import CacheOptions, simulate_cache
from tracekit.model.cache_plane import Devices, parse_changes
from tracekit.model.changes import Change
from tracekit.store import TraceFolder

PAGE = 4096
MIXED: list[Request] = [
    ("write" if number % 4 == 3 else "read", number * number % 97, 1 + number % 5)
    for number in range(400)
]


def rows(folder: TraceFolder, name: str) -> list[dict[str, Any]]:
    """Return a table's rows."""
    found: list[dict[str, Any]] = pq.read_table(folder.table(f"simulations/{name}")).to_pylist()
    return found


def test_a_split_by_hand(tmp_path: Path) -> None:
    # GIVEN a page that is read 100 times, and money for eight pages of flash or two of PCM
    folder = make_trace(tmp_path / "t", [("read", 0, 1)] * 100)
    simulate_cache(folder, CacheOptions(sizes_bytes=(8 * PAGE,), changes=parse_changes(())))
    found = {
        (row["parameter"], row["factor"]): row
        for row in rows(folder, "cache_sensitivity")
        if row["measure"] == "read_latency_avg"
    }
    # THEN 99 reads hit in a page of PCM (four pages' money) or of flash; the first is at 919 us
    alone_ns = (919 + 99 * 108) * 1e3 / 100
    told = found[None, 1.0]
    assert (told["pcm_bytes"], told["flash_bytes"]) == (PAGE, 4 * PAGE)
    assert told["best_ns"] == pytest.approx((919 + 99 * 6.7) * 1e3 / 100)
    assert {round(row["flash_alone_ns"]) for row in found.values()} == {round(alone_ns)}
    # AND half of 6.7 us is 3.35 us; twice the price leaves one page of PCM and no flash
    half = found["pcm.read_latency_us", 0.5]
    assert half["best_ns"] == pytest.approx((919 + 99 * 3.35) * 1e3 / 100)
    assert half["gain_ratio"] == pytest.approx(1 - half["best_ns"] / alone_ns)
    dear = found["pcm.price_per_gb", 2.0]
    assert (dear["pcm_bytes"], dear["flash_bytes"], dear["pcm_price_in_flash"]) == (PAGE, 0, 8)


def test_the_unchanged_rows_are_the_best_of_the_lines_of_the_plane(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", MIXED)
    simulate_cache(folder, CacheOptions())
    lines: dict[int, list[dict[str, Any]]] = {}
    for row in rows(folder, "cache_plane"):
        if row["even_flash_bytes"] is not None:
            lines.setdefault(row["even_flash_bytes"], []).append(row)
    plain = [row for row in rows(folder, "cache_sensitivity") if row["parameter"] is None]
    assert len(plain) == 2 * len(lines) > 10
    for row in plain:
        line = lines[row["even_flash_bytes"]]
        splits = [cell for cell in line if cell["pcm_bytes"] or cell is line[0]]
        values = [cell[f"{row['measure']}_ns"] for cell in splits]
        assert (row["best_ns"], row["flash_alone_ns"]) == (min(values), values[0])


@pytest.mark.parametrize(
    "change", parse_changes(["flash.price_per_gb=0.3", "base.read_latency_us=9"])
)
def test_a_change_is_the_simulation_of_the_changed_profile(tmp_path: Path, change: Change) -> None:
    # GIVEN a file of profiles in which the change was made by hand
    folder = make_trace(tmp_path / "t", MIXED)
    simulate_cache(folder, CacheOptions(changes=(change,)))
    changed = [row for row in rows(folder, "cache_sensitivity") if row["parameter"]]
    name = {"pcm": "ssd-pcm", "flash": "ssd-emlc", "base": "network-storage"}[str(change.device)]
    own = tmp_path / "own.toml"
    own.write_text(_profile(name, change))
    # WHEN it is simulated
    simulate_cache(folder, CacheOptions(profiles=own, changes=()))
    # THEN the answers are those of the change
    keys = (
        "measure",
        "even_flash_bytes",
        "pcm_bytes",
        "flash_bytes",
        "pcm_price_in_flash",
        "best_ns",
    )
    expected = [tuple(row[key] for key in keys) for row in rows(folder, "cache_sensitivity")]
    found = [tuple(row[key] for key in keys) for row in changed]
    assert [row[:4] for row in found] == [row[:4] for row in expected]
    for row, other in zip(found, expected, strict=True):
        assert row[4:] == pytest.approx(other[4:])


def _profile(name: str, change: Change) -> str:
    profile = load_profiles()[name]
    values = {key: getattr(profile, key) for key in profile.__dataclass_fields__ if key[0] != "n"}
    values = {key: value for key, value in values.items() if isinstance(value, float)}
    values[change.parameter] *= change.factor
    if change.parameter != "price_per_gb":
        values[change.parameter.replace("latency_us", "mib_s")] /= change.factor
    return f"[{name}]\n" + "".join(f"{key} = {value!r}\n" for key, value in values.items())


def test_a_large_page_takes_the_factor_too() -> None:
    known = load_profiles()
    devices = Devices(known["ssd-pcm"], known["ssd-emlc"], known["network-storage"], 1 << 20)
    for level in ("pcm", "flash", "base"):
        changed = devices.changed(Change(level, "read_latency_us", 0.001))
        before, after = getattr(devices, level), getattr(changed, level)
        assert changed.read_us(after) == pytest.approx(devices.read_us(before) / 1000)
        assert changed.write_us(after) == devices.write_us(before)
    assert replace(devices, page_bytes=PAGE).read_us(devices.pcm) == pytest.approx(6.7)


def test_only_writes_have_no_read_latency_but_a_time(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", [("write", 5, 9), ("write", 6, 1)])
    simulate_cache(folder, CacheOptions())
    assert {row["measure"] for row in rows(folder, "cache_sensitivity")} == {"io_time"}


def test_a_change_that_never_pays_is_said_to(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", [("read", 0, 100)])
    said = to_builtins(simulate_cache(folder, CacheOptions()))["headline"]
    assert said[-2] == (
        "for no budget and under no change of a device does PCM save 0.05% of the mean read latency"
    )


def test_inclusive_levels_are_simulated_for_changed_prices(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", MIXED)
    simulate_cache(folder, CacheOptions(levels="inclusive", policies=("lru",)))
    ratios = {row["pcm_price_in_flash"] for row in rows(folder, "cache_sensitivity")}
    assert ratios == {2, 4, 8}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pcm.read_latency_us", "there is no parameter"),
        ("pcm.read_latncy_us=2", "there is no parameter 'pcm.read_latncy_us'"),
        ("disk.price_per_gb=2", "there is no parameter 'disk.price_per_gb'"),
        ("base.price_per_gb=2", "what is behind the caches is not bought"),
        ("pcm.price_per_gb=", "'' in 'pcm.price_per_gb=' is not a number"),
        ("pcm.price_per_gb=0", "0 in 'pcm.price_per_gb=0' is not from 0.001 to 1000"),
        ("pcm.price_per_gb=nan", "nan in .* is not from"),
        ("flash.price_per_gb=" + ",".join(map(str, range(1, 99))), "104 changes are more than 64"),
    ],
)
def test_changes_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_changes([text])


def test_the_command_takes_changes_and_says_the_range(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", [("read", 0, 1)] * 100)
    words = ["simulate", "cache", str(folder.path)]
    words += ["--sizes", "32KiB", "--vary", "flash.read_latency_us=4"]
    told = invoke(*words)
    assert told.exit_code == 0, told.output
    read, time = told.stdout.splitlines()[-2:]
    assert read.startswith("for the price of ")
    assert "of the mean read latency; with one parameter changed, from" in read
    assert "of the aggregate I/O time" in time
    parameters = {row["parameter"] for row in rows(folder, "cache_sensitivity")}
    assert "flash.read_latency_us" in parameters
    wrong = invoke("simulate", "cache", folder.path, "--vary", "x=1")
    assert isinstance(wrong.exception, UsageError)
