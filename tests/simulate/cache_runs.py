"""Random references as runs for the native caches."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.simulate.cache_models import Reference
from tracekit._native.caches import RUN

PAGES = 24
Run = tuple[int, int, bool]  # first page, pages, is write

RUNS = st.lists(
    st.tuples(st.integers(0, PAGES - 1), st.integers(1, 6), st.booleans()).map(
        lambda run: (run[0], min(run[1], PAGES - run[0]), run[2])
    ),
    max_size=80,
)


def native(runs: Sequence[Run], *, roles: Sequence[int] = ()) -> NDArray[np.void]:
    """Return runs as the kernels take them."""
    table = np.zeros(len(runs), np.dtype(RUN))
    for at, (first, count, is_write) in enumerate(runs):
        role = roles[at % len(roles)] if roles else 0
        table[at] = (first, count, is_write, role)
    return table


def references(runs: Sequence[Run]) -> list[Reference]:
    """Return the runs page by page."""
    return [
        (page, is_write) for first, count, is_write in runs for page in range(first, first + count)
    ]
