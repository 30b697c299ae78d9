"""What `simulate cache` says of its policies."""

from pathlib import Path
from typing import Any

import pytest

from tests.simulate.test_cache import MIXED, PAGE, SMALL, simulated
from tests.traces import rows_of
from tracekit.model.cache import CacheOptions


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # of one policy, where it has most of its hits
        (
            CacheOptions(policies=("sieve",), sizes_bytes=(2 * PAGE, 3 * PAGE)),
            "nine tenths of the hits that the largest size has at 12 KiB: sieve 66.7% missed",
        ),
        # where no write brings a page in, of the reads alone: for these the optimum is one
        (
            CacheOptions(writes="around", policies=("lru", "fifo"), sizes_bytes=(2 * PAGE,)),
            "policies do not differ at any size: 100.0% missed of the reads at 8 KiB",
        ),
    ],
)
def test_what_is_said_of_policies(tmp_path: Path, options: CacheOptions, expected: str) -> None:
    _, result = simulated(tmp_path, SMALL, **vars(options))
    assert result["headline"][1] == expected


def test_without_allocation_nothing_beats_the_optimum_that_is_named(tmp_path: Path) -> None:
    # GIVEN reads and writes of few pages, which writes evict or leave as they are
    for number, writes in enumerate(("around", "through", "back")):
        options: dict[str, Any] = {"writes": writes, "writes_allocate": False}
        folder, result = simulated(tmp_path / str(number), MIXED, **options)
        rows = rows_of(folder.table("simulations/cache_policies"))
        # THEN what is named of all policies is least of the optimum, at every size
        best = {r["capacity_bytes"]: r for r in rows if r["policy"] == "optimum"}
        ratios = [(r["read_miss_ratio"], best[r["capacity_bytes"]]) for r in rows]
        assert [one for one, most in ratios if one < most["read_miss_ratio"]] == []
        (line,) = [one for one in result["headline"] if one.startswith("policies")]
        assert " missed of the reads" in line
        named = line.split(": ")[1].split(", ")
        assert named[0].startswith("optimum ") or named[0].split()[1] == next(
            one.split()[1] for one in named if one.startswith("optimum ")
        )
