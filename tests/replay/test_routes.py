"""Where the addresses of a partition lie on a target of their own."""

import numpy as np

from tracekit.metadata import Region
from tracekit.replay.routes import Routes


def test_what_lies_behind_an_inner_region_is_still_of_the_partition() -> None:
    # GIVEN a file system with a journal inside it, each an entry of the layout
    layout = [
        Region(device="sda", start_sector=2048, sectors=10_000),
        Region(device="sda", start_sector=6048, sectors=1000),
    ]
    routes = Routes(layout, ("fs",))
    # WHEN requests of the file system lie before, in and behind the journal, and outside of all
    sector = np.array([2056, 6048, 8000, 12_048], np.int64)
    numbers = routes.number("sda", "fs", sector=sector, end=sector + 8)
    extents = routes.tables(trace_sha256=bytes(32), level="queued").extents
    moved = [
        int(place) + extents[number].target_sector - extents[number].source_sector
        for place, number in zip(sector, numbers, strict=True)
    ]
    # THEN those of the partition keep their distance to its start, and the others do not mix in
    assert numbers[0] == numbers[2] != numbers[1]
    assert moved[0] == 8
    assert moved[2] == 8000 - 2048
    assert moved[1] != moved[3]
    assert min(moved[1], moved[3]) >= 8008 - 2048
