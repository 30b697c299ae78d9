"""Requests that follow the last one of their stream, as fitted profiles have them."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.generate.profiles import ARRIVAL, HEAD, profile, requests
from tracekit._native.workload import RUN, Territory

LARGE = HEAD.replace("64MiB", "4GiB")


def kind(begins: str, pages: str, *, more: str = "", size: str = "4KiB", then: str = "") -> str:
    """Return a kind of reads that follow."""
    return (
        f'[[request]]\nshare = SHARE\noperation = "read"\naccess = "following"\n'
        f'begins = "{begins}"\npages = "{pages}"\nsize = "{size}"\n{more}\n'
        + (f"then = {then}\n" if then else "")
    )


def made(folder: Path, *kinds: str, count: int, head: str = LARGE) -> NDArray[np.void]:
    """Return requests of kinds with equal shares."""
    text = head + ARRIVAL + "".join(kinds).replace("SHARE", str(1 / len(kinds)))
    return requests(profile(folder, text), count)


def test_kinds_come_behind_each_other_as_often_as_dealt(tmp_path: Path) -> None:
    sizes = ("4KiB", "8KiB", "12KiB")
    then = ("[0, 3, 1]", "[4, 0, 0]", "[1, 0, 9]")
    kinds = [
        kind("elsewhere", "new", size=size, then=behind)
        for size, behind in zip(sizes, then, strict=True)
    ]
    found = made(tmp_path, *kinds, count=4_001)["length_sectors"] // 8 - 1
    pairs = Counter(pairwise(found.tolist()))
    # THEN what never comes behind a kind does not, and the others come in proportion, but for the
    # cards that are not dealt yet
    assert set(pairs) == {(0, 1), (0, 2), (1, 0), (2, 0), (2, 2)}
    behind_0 = pairs[0, 1] + pairs[0, 2]
    assert abs(pairs[0, 1] - 3 / 4 * behind_0) <= 1
    behind_2 = pairs[2, 0] + pairs[2, 2]
    assert abs(pairs[2, 2] - 9 / 10 * behind_2) <= 1


def test_what_goes_on_does_and_what_resumes_does(tmp_path: Path) -> None:
    # GIVEN runs of a jump and two requests that go on, then one that resumes where the run before
    # ended, on a target with much room
    found = made(
        tmp_path,
        kind("elsewhere", "new", size="4KiB", then="[0, 1, 0, 0]"),
        kind("on", "new", size="8KiB", then="[0, 0, 1, 0]"),
        kind("on", "new", size="16KiB", then="[0, 0, 0, 1]"),
        kind("resumed", "new", size="32KiB", then="[1, 0, 0, 0]"),
        count=4_000,
    )
    start, sectors = found["sector"].astype(np.int64), found["length_sectors"].astype(np.int64)
    begins = dict(zip((8, 16, 32, 64), ("elsewhere", "on", "on", "resumed"), strict=True))
    last = before = -1
    told: Counter[tuple[str, bool]] = Counter()
    for sector, length in zip(start.tolist(), sectors.tolist(), strict=True):
        how = "on" if sector == last else "resumed" if sector == before else "elsewhere"
        told[begins[length], how == begins[length]] += 1
        if how != "on":
            before = last
        last = sector + length
    # THEN all do as they say, but for the very first ones, and what found the pages used
    assert sum(number for (_, is_so), number in told.items() if not is_so) <= 40
    # AND no page was used twice
    pages = np.concatenate([np.arange(s, s + n, 8) for s, n in zip(start, sectors, strict=True)])
    assert len(set(pages.tolist())) == len(pages)


def test_used_pages_lie_as_far_back_as_said(tmp_path: Path) -> None:
    new = kind("elsewhere", "new", then="[1, 1]")
    used = kind("elsewhere", "used", more="distance = { values = [3, 50] }", then="[1, 1]")
    used = used.replace("[3, 50]", "[3, 50], weights = [1, 1]")
    found = made(tmp_path, new, used, count=10_000)
    stack: list[int] = []
    backs: Counter[int] = Counter()
    for page in (found["sector"] // 8).tolist():
        backs[stack[::-1].index(page) + 1 if page in stack else 0] += 1
        if page in stack:
            stack.remove(page)
        stack.append(page)
    # THEN every second page is new, the others are the 3rd or the 50th last one, or nearest to it
    # while there are not so many
    assert backs[0] == pytest.approx(5000, abs=60)
    assert backs[3] == pytest.approx(2500, rel=0.05)
    assert backs[50] == pytest.approx(2500, rel=0.08)
    assert sum(backs[back] for back in (0, 3, 50)) > 9_900


def test_a_used_place_holds_the_request_and_lets_its_run_go_on(tmp_path: Path) -> None:
    # GIVEN new runs of three pages, and used ones of two pages that go on with a new one
    found = made(
        tmp_path,
        kind("elsewhere", "new", size="12KiB", then="[0, 1, 0]"),
        kind(
            "elsewhere", "used", size="8KiB", more='align = "4KiB"\ndistance = 40', then="[0, 0, 1]"
        ),
        kind("on", "new", size="4KiB", then="[1, 0, 0]"),
        count=3_000,
    )
    used: set[int] = set()
    right = 0
    for sector, length in zip(found["sector"].tolist(), found["length_sectors"].tolist(),
                              strict=True):  # fmt: skip
        pages = set(range(sector // 8, (sector + length) // 8))
        if len(pages) == 2:
            right += pages <= used and max(pages) + 1 not in used
        used |= pages
    # THEN nearly all are the last two pages of a run
    assert right > 980


def test_a_circle_goes_round_whatever_lies_between(tmp_path: Path) -> None:
    circle = """[[request]]
share = 0.75
operation = "write"
access = "circular"
size = { values = ["4KiB", "8KiB"], weights = [1, 1] }
circle = { start = "1MiB", size = "130KiB" }
[[request]]
share = 0.25
operation = "read"
access = "random"
size = "4KiB"
"""
    found = requests(profile(tmp_path, HEAD + ARRIVAL + circle), 4_000)
    found = found[found["operation"] == 1]
    expected, at = [], 2048
    for sectors in found["length_sectors"].tolist():
        at = 2048 if at + sectors > 2048 + 260 else at
        expected.append(at)
        at += sectors
    assert found["sector"].tolist() == expected


def test_streams_of_one_region_share_the_pages_they_used(tmp_path: Path) -> None:
    stream = """[[stream]]
arrival = { process = "constant", mean = "1ms" }
[[stream.request]]
share = 1
operation = "read"
access = "following"
begins = "elsewhere"
size = "4KiB"
"""
    text = HEAD + stream + 'pages = "new"\n' + stream + 'pages = "used"\ndistance = 1\n'
    found = requests(profile(tmp_path, text), 1000)
    # THEN the second stream, which uses the last page again, goes where the first one went
    assert found["target"][:4].tolist() == [0, 1, 0, 1]
    assert found["sector"][0::2].tolist() == found["sector"][1::2].tolist()
    # AND no page is new twice
    assert len(set(found["sector"].tolist())) == 500


def test_a_full_region_is_used_anyhow(tmp_path: Path) -> None:
    # GIVEN more new pages than the target has
    found = made(tmp_path, kind("elsewhere", "new"), count=400,
                 head=HEAD.replace("64MiB", "1MiB"))  # fmt: skip
    pages = (found["sector"] // 8).tolist()
    # THEN all are used before any is used again
    assert len(set(pages[:256])) == 256
    assert max(pages) < 256


def test_the_first_pages_of_requests_are_found_in_a_stack_kept_by_hand() -> None:
    random = np.random.default_rng(8)
    runs = np.zeros(2_000, np.dtype(RUN))
    runs["first_sector"] = random.zipf(1.3, 2_000) % 3_000
    runs["sectors"] = random.integers(1, 40, 2_000)
    with Territory(1 << 12) as territory:
        back = np.concatenate([territory.see(part) for part in np.split(runs, [1, 700])])
    stack: list[int] = []
    for (first, sectors), found in zip(runs.tolist(), back.tolist(), strict=True):
        pages = range(first // 8, (first + sectors - 1) // 8 + 1)
        assert found == (stack[::-1].index(pages[0]) + 1 if pages[0] in stack else 0)
        for page in pages:
            if page in stack:
                stack.remove(page)
            stack.append(page)
