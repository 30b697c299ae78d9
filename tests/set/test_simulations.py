"""Caches and tiers of each volume of a set: as of each alone, and the table over all of them."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import tracekit as tk
from tests.command_line import invoke, succeed
from tests.traces import disk, write_folder
from tracekit.errors import PartialError, UsageError

NAMES = ("web-server", "paging", "log-structured")


@pytest.fixture
def made(tmp_path: Path) -> tk.Set:
    for number, name in enumerate(NAMES, start=1):
        tk.generate(name, tmp_path / "alone" / name, requests=400 * number)
    found = tk.add_to_set(tmp_path / "set", *((tmp_path / "alone").iterdir()))
    found.classify().check()
    return found


def files(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (place / "simulations").iterdir()}


def test_each_volume_has_what_it_has_alone(tmp_path: Path, made: tk.Set) -> None:
    # GIVEN a set, of which caches and tiers are asked
    succeed("simulate", "cache", made.path, "--sizes", "1MiB,4MiB")
    succeed("simulate", "tiers", made.path, "--extent", "8MiB")
    for name in NAMES:
        # WHEN the same is asked of each of its volumes alone
        alone = tk.open(tmp_path / "alone" / name)
        alone.classify()
        alone.simulate.cache(sizes="1MiB,4MiB")
        alone.simulate.tiers(extent="8MiB")
        # THEN all files are the same
        assert files(made.path / name) == files(alone.path)
    # AND what is up to date is not done again, but with other options
    again = succeed("simulate", "cache", made.path, "--sizes", "1MiB,4MiB").stdout
    assert again.startswith("simulate cache: 0 volumes done, 3 up to date\n")
    assert tk.open_set(made.path).simulate.cache().summary["done"] == 3
    listed = tk.open_set(made.path).volumes
    assert all({"simulate cache", "simulate tiers"} < {*one["stages"]} for one in listed)


def test_the_table_of_caches_by_hand(tmp_path: Path) -> None:
    # GIVEN a volume that reads eight pages in a loop, four times, and one that reads one page twice
    for name, pages in (("loop", [*range(8)] * 4), ("pair", [5, 5])):
        rows = [
            {"operation": "read", "sector": page * 8, "length_bytes": 4096, "queue_ns": at}
            for at, page in enumerate(pages)
        ]
        write_folder(tmp_path / name, rows, devices=[disk("sda", 800)])
    made = tk.add_to_set(tmp_path / "set", tmp_path / "loop", tmp_path / "pair")
    made.classify().check()
    found = made.simulate.cache().summary["caches"]
    # THEN less than eight pages of LRU miss all of the loop, and eight what comes first
    assert found["shares"] == [1 / 1024, 1 / 256, 1 / 64, 1 / 16, 1 / 4]
    of_loop, of_pair = found["volumes"]
    assert of_loop == {
        "volume": "loop",
        "references": 32,
        "touched_bytes": 8 * 4096,
        "miss_ratios": [1.0] * 5,
        "least_miss_ratio": 0.25,
    }
    assert (of_pair["references"], of_pair["least_miss_ratio"]) == (2, 0.5)
    assert found["all"]["least_miss_ratio"] == pytest.approx((8 + 1) / (32 + 2))
    assert found["all"]["touched_bytes"] == 9 * 4096


def test_the_table_says_what_the_curves_say(made: tk.Set) -> None:
    found = made.simulate.cache().summary["caches"]
    misses = 0.0
    for one in found["volumes"]:
        table = pq.read_table(made.path / one["volume"] / "simulations" / "cache_curve.parquet")
        curve = {
            row["capacity_bytes"]: row["miss_ratio"]
            for row in table.to_pylist()
            if (row["scope"], row["role"], row["operation"]) == ("all", "all", "all")
        }
        largest = max(curve)
        for share, ratio in zip(found["shares"], one["miss_ratios"], strict=True):
            assert ratio == curve[max(size for size in curve if size <= share * largest)]
        misses += one["references"] * one["miss_ratios"][4]
    assert found["all"]["miss_ratios"][4] == pytest.approx(misses / found["all"]["references"])
    references = [one["references"] for one in found["volumes"]]
    assert references == sorted(references, reverse=True)


def test_the_table_of_tiers_says_what_each_volume_says(made: tk.Set) -> None:
    done = succeed("simulate", "tiers", made.path, "--extent", "8MiB", "--json")
    found = json.loads(done.stdout)["tiers"]
    assert found["first"] == "ssd-pcm"
    gains = []
    for one in found["volumes"]:
        kept = json.loads((made.path / one["volume"] / "simulations" / "tiers.json").read_text())
        mixes = kept["configurations"]["static"]
        best, other = mixes["best with ssd-pcm"], mixes["best without ssd-pcm"]
        assert (one["with_first"], one["without_first"]) == (best["mix"], other["mix"])
        gains.append(best["iops_per_price"] / other["iops_per_price"] - 1)
        assert one["gain_ratio"] == pytest.approx(gains[-1])
    assert gains == sorted(gains, reverse=True)


def test_a_volume_that_is_damaged_is_left_out(made: tk.Set) -> None:
    made.simulate.cache().check()
    (made.path / "paging" / "simulations" / "cache_curve.parquet").unlink()
    (made.path / "web-server" / "trace.json").unlink()
    done = invoke("simulate", "cache", made.path)
    assert isinstance(done.exception, PartialError)
    assert done.exception.exit_code == 3
    named = [line for line in done.stderr.splitlines() if line.startswith("left out: ")]
    assert [line.split(": ")[1] for line in named] == ["web-server", "paging"]
    assert "log-structured" in done.stdout
    # AND an engine is of sets alone
    alone = invoke("simulate", "cache", made.path / "log-structured", "--engine", "spark")
    assert isinstance(alone.exception, UsageError)
    assert "--engine goes with a trace set" in str(alone.exception)
