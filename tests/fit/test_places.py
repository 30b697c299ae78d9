"""Where requests begin: by hand, and beside a stack of pages kept as a list."""

from typing import Any

import numpy as np
import pytest

from tracekit.workload import fit
from tracekit.workload.fidelity import ROWS
from tracekit.workload.fit import find_cyclic_range, fit_kinds, region_of


def rows_of(*requests: tuple[int, int, int]) -> np.ndarray[Any, np.dtype[np.void]]:
    """Return rows of sector, sectors and operation."""
    rows = np.zeros(len(requests), ROWS)
    for row, (sector, sectors, operation) in zip(rows, requests, strict=True):
        row["sector"], row["sectors"], row["operation"] = sector, sectors, operation
    return rows


def test_places_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN writes 0-8-16, a jump to 800, back to 24 where the first run ended, and 800 again,
    # between them a flush and a read of another stream at 800; and that nothing is rare
    monkeypatch.setattr(fit, "RARE", 0)
    rows = rows_of((0, 8, 1), (8, 8, 1), (16, 8, 1), (800, 8, 1), (0, 0, 2), (24, 8, 1),
                   (800, 8, 0), (800, 8, 1))  # fmt: skip
    mine = np.array([True] * 6 + [False, True])
    on, resumed, new, used, run, flush = fit_kinds(
        region_of(rows, first_sector=0, sectors=1 << 12), mine
    )
    # THEN each has its place in the order of what comes behind it; of what is last, nothing does
    assert (on["begins"], on["pages"], on["then"]) == ("on", "new", [1, 0, 1, 0, 0, 0])
    assert (resumed["begins"], resumed["pages"]) == ("resumed", "new")
    assert resumed["then"] == [0, 0, 0, 1, 0, 0]
    assert (new["begins"], new["pages"], new["then"]) == ("elsewhere", "new", [0, 0, 0, 0, 0, 1])
    assert (used["begins"], used["pages"]) == ("elsewhere", "used")
    assert used["then"] == [2, 1, 1, 1, 1, 1]
    assert (run["begins"], run["pages"], run["then"]) == ("elsewhere", "new", [1, 0, 0, 0, 0, 0])
    assert (flush["operation"], flush["then"]) == ("flush", [0, 1, 0, 0, 0, 0])
    # AND the page used again was the very last one, by the other stream
    assert used["distance"] == {"shares": [0, 1.0], "values": [1.0, 2.0]}
    assert [one["share"] for one in (on, resumed, new, used, run, flush)] == pytest.approx(
        [2 / 7, *[1 / 7] * 5]
    )


def test_used_places_of_one_page_and_of_several_are_kinds_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # GIVEN three pages at 0, then a page of them and all of them again, from elsewhere each time
    monkeypatch.setattr(fit, "RARE", 0)
    rows = rows_of((0, 24, 1), (800, 8, 1), (8, 4, 1), (1600, 8, 1), (0, 24, 1))
    kinds = fit_kinds(region_of(rows, first_sector=0, sectors=1 << 12), np.ones(len(rows), bool))
    assert [(one["pages"], one["share"]) for one in kinds] == [
        ("new", 0.6), ("used", 0.2), ("used", 0.2)
    ]  # fmt: skip
    new, one, several = kinds
    assert new["size"] == {"values": ["4096", "12288"], "weights": [2, 1]}
    # THEN the page was used three pages before, and the three five pages before
    assert (one["size"], one["distance"]["values"]) == ("2048", [3.0, 4.0])
    assert (several["size"], several["distance"]["values"]) == ("12288", [5.0, 6.0])


def test_rare_kinds_begin_elsewhere_on_such_pages() -> None:
    on, resumed, elsewhere, run = fit.ON, fit.RESUMED, fit.ELSEWHERE, fit.RUN_START
    kinds = np.array([on] * 20 + [on + 1] * 3 + [resumed] * 2 + [elsewhere] + [run + 3] * 4)
    assert fit.kept_kinds(kinds).tolist() == (
        [on] * 20 + [elsewhere + 1] * 3 + [elsewhere] * 3 + [elsewhere + 1] * 4
    )


def test_distances_are_those_of_a_stack_kept_by_hand() -> None:
    random = np.random.default_rng(4)
    pages = (random.zipf(1.4, 3000) % 97) * 16
    rows = rows_of(*((int(page), 8, 0) for page in pages))
    kinds = fit_kinds(region_of(rows, first_sector=0, sectors=1 << 12), np.ones(len(rows), bool))
    (read,) = (one for one in kinds if one["pages"] == "used")
    stack: list[int] = []
    backs: list[int] = []
    for page in pages.tolist():
        if page in stack:
            backs.append(stack[::-1].index(page) + 1)
            stack.remove(page)
        stack.append(page)
    # THEN share and quantiles are those of the list, where the profile has a value
    assert read["share"] == pytest.approx(len(backs) / len(pages), abs=1e-5)
    found = read["distance"]
    for share, value in zip(found["shares"][1:], found["values"][1:], strict=True):
        assert share == pytest.approx(np.mean(np.array(backs) < value), abs=1e-5)


RING = np.tile(np.arange(8, 1000, 8), 3)
"""Places of a log that goes round three times, without its first page."""


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (RING, (8, 992)),
        (RING[:100], (8, 4088)),  # never round: up to the end of the region
        (RING[30:200], (8, 992)),  # from the middle on
        (np.concatenate([[0], RING[20:]]), (8, 992)),  # with a header
        (RING[::-1], None),  # backwards
        (np.concatenate([RING[:70], RING[20:]]), (8, 992)),  # once back to the middle
        (np.concatenate([RING[at : at + 70] for at in range(0, 200, 20)]), None),  # ever again
        (RING[:20], None),  # too few
        (np.concatenate([RING[40:124]] * 3 + [[0]]), None),  # much lies before it
    ],
    ids=["round", "not round", "middle", "header", "backwards", "once", "often", "few", "much"],
)
def test_a_ring_is_found(start: np.ndarray[Any, Any], expected: tuple[int, int] | None) -> None:
    eights = np.full(len(start), 8)
    found = find_cyclic_range(np.zeros(len(start), int), start, sectors=eights, region_sectors=4096)
    assert (None if found is None else (found.first_sector, found.sectors)) == expected


def test_a_ring_is_one_of_several_kinds() -> None:
    # GIVEN a log of two kinds of writes, and of a third kind one in 31 elsewhere
    start: list[int] = []
    codes: list[int] = []
    for number, place in enumerate(RING.tolist()):
        start, codes = [*start, place], [*codes, 32 + number % 2]
        if number % 31 == 0:
            start, codes = [*start, 3000 + 8 * (number % 3)], [*codes, 40]
    found = find_cyclic_range(np.array(codes), np.array(start), sectors=np.full(len(start), 8),
                      region_sectors=4096)  # fmt: skip
    assert found is not None
    assert (found.kinds, found.first_sector, found.sectors) == ((32, 33), 8, 992)
