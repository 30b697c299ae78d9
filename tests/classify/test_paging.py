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


def test_a_place_that_no_disk_has_counts_for_nothing() -> None:
    # GIVEN a request before the disk, one beyond all, one of no length and one of 8 GiB
    sector = np.array([-8, 1 << 60, 64, 0])
    end = np.array([8, (1 << 60) + 8, 64, 1 << 24])
    # WHEN they are counted
    with Paging() as paging:
        paging.add(Touches(np.zeros(4, np.int64), sector, end, sector < 0, sector < 0))
        # THEN nothing was touched
        assert not len(paging.chunks())
