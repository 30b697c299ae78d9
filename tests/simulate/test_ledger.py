"""Counted placements: priced for any devices they take what a model of one placement takes."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.simulate.placement_traces import DISK, NVM, Block, Request, hottest_first, write_trace
from tests.simulate.test_placement import as_issued, traces
from tests.simulate.test_placement_walk import HEAD
from tests.simulate.walk_model import model
from tracekit._native.placement import Ledger
from tracekit.devices import DevicePair, Profile
from tracekit.model.block_orders import read_blocks
from tracekit.model.changes import changed_devices, variants
from tracekit.model.gain_range import Placed
from tracekit.model.placement import ChargedTrace

SHARES = st.fixed_dictionaries({role: st.integers(0, 30) for role in ("fs", "journal", "swap")})
QUIET = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def placement_of(
    folder: Path, shares: dict[str, int], pairs: list[DevicePair], *, is_issued: bool = False
) -> Placed:
    touched = read_blocks(folder / "blocks.parquet")
    trace = ChargedTrace(folder / "requests.parquet", touched, pairs[0], is_issued=is_issued)
    return Placed(trace, shares, "hottest", pairs)


def priced(
    folder: Path,
    shares: dict[str, int],
    pairs: list[DevicePair],
    *,
    is_issued: bool = False,
) -> list[tuple[int, int]]:
    """Count a trace once, and price it for each pair: base alone and placed, in ps."""
    placement = placement_of(folder, shares, pairs, is_issued=is_issued)
    with Ledger(placement.on_nvm()) as ledger:
        for rows in placement.trace.rows():
            ledger.add(rows)
        alone, placed = ledger.finish()
        assert all(counts.is_empty for counts in ledger.finish())
    return [(placement.time_ps(alone, pair), placement.time_ps(placed, pair)) for pair in pairs]


def on_nvm(requests: list[Request], shares: dict[str, int]) -> set[Block]:
    return {
        block for role, count in shares.items() for block in hottest_first(requests, role)[:count]
    }


@QUIET
@given(requests=traces(), shares=SHARES, base=st.sampled_from([DISK, HEAD]))
def test_one_count_prices_every_changed_device(
    requests: list[Request], shares: dict[str, int], base: Profile, tmp_path: Path
) -> None:
    # GIVEN a placement of so many blocks, WHEN one count is priced with each part changed
    folder = write_trace(tmp_path, requests)
    first = DevicePair(base, NVM)
    pairs = [first, *(changed_devices(first, change) for change in variants(first, (0.5, 3.0)))]
    found = priced(folder, shares, pairs)
    # THEN each price is what the placement takes on those devices, request by request
    for pair, (alone, placed) in zip(pairs, found, strict=True):
        assert alone == model(requests, set(), pair, level="queued").service
        assert placed == model(requests, on_nvm(requests, shares), pair, level="queued").service


@pytest.mark.parametrize("base", [DISK, HEAD])
def test_merged_requests_are_counted_as_they_were_issued(base: Profile, tmp_path: Path) -> None:
    queued, issued = as_issued(5, 12)
    shares = {"fs": 9, "journal": 40, "swap": 2}
    folder = write_trace(tmp_path, queued)
    ((alone, placed),) = priced(folder, shares, [DevicePair(base, NVM)], is_issued=True)
    assert alone == model(issued, set(), (base, NVM), level="issued").service
    expected = model(issued, on_nvm(queued, shares), (base, NVM), level="issued").service
    assert placed == expected


def test_counts_by_hand(tmp_path: Path) -> None:
    # GIVEN a block written twice and its neighbour once, the hot one on NVM
    requests = [Request("fs", 0), Request("fs", 8, is_fua=True), Request("fs", 0, is_preflush=True)]
    folder = write_trace(tmp_path, requests)
    placement = placement_of(folder, {"fs": 1}, [DevicePair(DISK, NVM)])
    with Ledger(placement.on_nvm()) as ledger:
        for rows in placement.trace.rows():
            ledger.add(rows)
        alone, placed = ledger.finish()
    # THEN alone the neighbour continues the write before it; placed it is on another device
    assert (alone.apart, alone.joined) == (((0, 2), (0, 0)), ((0, 1), (0, 0)))
    assert (placed.apart, placed.joined) == (((0, 1), (0, 2)), ((0, 0), (0, 0)))
    assert (alone.sectors[0], placed.sectors) == ((0, 24), ((0, 8), (0, 16)))
    assert (alone.fua, placed.fua) == ((1, 0), (1, 0))
    assert (alone.flushes, placed.flushes) == ((1, 0, 0), (0, 1, 0))
