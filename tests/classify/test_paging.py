"""Pages by stretches of 64: what was read before and after it was written, and by whom."""

from collections import Counter

import numpy as np

from tracekit.classify.paging import CHUNK_PAGES, DEVICE_SHIFT, Paging, Touches

from tracekit.classify.paging import FRESH, KNOWN, OTHER, RECLAIMED  # isort: skip

PAGE_SECTORS = 8


def touches(count: int, *, seed: int) -> Touches:
    """Return requests of two devices, of a sector to several stretches of pages."""
    random = np.random.default_rng(seed)
    sector = random.integers(0, 1 << 14, count) + (random.random(count) < 0.1) * (1 << 40)
    is_write = random.random(count) < 0.5
    return Touches(
        random.integers(0, 2, count) * 70_000,
        sector,
        sector + random.choice([1, 8, 24, 2000], count),
        is_write,
        is_write & (random.random(count) < 0.5),
    )


def test_each_page_is_judged_by_the_requests_before() -> None:
    # GIVEN requests that overlap, in two batches
    batches = [touches(400, seed=seed) for seed in (1, 2)]
    # WHEN they are counted page by page in sets
    expected: Counter[tuple[int, int]] = Counter()
    written: set[tuple[int, int]] = set()
    for batch in batches:
        rows = zip(*(column.tolist() for column in vars(batch).values()), strict=True)
        for device, sector, end, is_write, is_reclaim in rows:
            for page in range(sector // PAGE_SECTORS, -(-end // PAGE_SECTORS)):
                kind = RECLAIMED if is_reclaim else OTHER
                if not is_write:
                    kind = KNOWN if (device, page) in written else FRESH
                else:
                    written.add((device, page))
                expected[(device << DEVICE_SHIFT) + page // CHUNK_PAGES, kind] += 1
    # AND natively
    with Paging() as paging:
        for batch in batches:
            paging.add(batch)
        found = paging.chunks()
    # THEN both are the same, and keys ascend
    assert (np.diff(found["key"].astype(np.int64)) > 0).all()
    counts = {
        (int(chunk["key"]), kind): int(pages)
        for chunk in found
        for kind, pages in enumerate(chunk["counts"])
        if pages
    }
    assert counts == dict(expected)


def chunk_of(sector: int, count: int, kind: int) -> list[tuple[int, int, int]]:
    return [(sector + 8 * number, 8, kind) for number in range(count)]


def areas_of(rows: list[tuple[int, int, int]], *, allows_fresh: bool) -> list[tuple[int, int, int]]:
    """Return first sector, end and pages read first of the areas of (sector, sectors, kind)."""
    sector, sectors, kind = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    is_write = kind != READ
    of_reclaim = kind == RECLAIMED
    with Paging() as paging:
        device = np.zeros(len(rows), np.int64)
        paging.add(Touches(device, sector, sector + sectors, is_write, of_reclaim))
        return [
            (one.first_sector, one.end_sector, one.fresh_pages)
            for one in paging.areas(allows_fresh=allows_fresh)
        ]


READ = -1
CHUNK = 8 * CHUNK_PAGES


def test_swap_from_before_the_trace_is_found_where_flags_tell_reclaim() -> None:
    # GIVEN a place that reclaim writes and that is read, with pages that were there before: in
    # chunks of their own, and among others
    swapped = [*chunk_of(0, 64, RECLAIMED), *chunk_of(0, 64, READ)]
    old = chunk_of(CHUNK, 30, READ)
    mixed = [*chunk_of(2 * CHUNK, 40, RECLAIMED), *chunk_of(2 * CHUNK, 60, READ)]
    rows = [*swapped, *old, *mixed]
    assert areas_of(rows, allows_fresh=True) == [(0, 3 * CHUNK, 30 + 20)]
    # THEN without flags it is what nothing was read of before
    assert areas_of(rows, allows_fresh=False) == [(0, CHUNK, 0)]
    # AND neither what is read at an end of it nor a place that is mostly read is swap
    assert areas_of([*rows, *chunk_of(3 * CHUNK, 9, READ)], allows_fresh=True) == [
        (0, 3 * CHUNK, 50)
    ]
    much = [*swapped, *chunk_of(CHUNK, 64, READ), *chunk_of(2 * CHUNK, 1, RECLAIMED)]
    assert areas_of([*much, *chunk_of(2 * CHUNK, 64, READ)], allows_fresh=True) == [(0, CHUNK, 0)]
    # AND one write that somebody waits for makes it a file system's
    assert areas_of([*rows, (8 * 70, 8, OTHER)], allows_fresh=True) == [(0, CHUNK, 0)]


def test_a_place_that_no_disk_has_counts_for_nothing() -> None:
    # GIVEN a request before the disk, one beyond all, one of no length and one of 8 GiB
    sector = np.array([-8, 1 << 60, 64, 0])
    end = np.array([8, (1 << 60) + 8, 64, 1 << 24])
    # WHEN they are counted
    with Paging() as paging:
        paging.add(Touches(np.zeros(4, np.int64), sector, end, sector < 0, sector < 0))
        # THEN nothing was touched
        assert not len(paging.chunks())
