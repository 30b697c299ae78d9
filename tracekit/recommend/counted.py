"""What a placement gains on several devices, from one pass over a trace or a window of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tracekit.native.ledger import Ledger
from tracekit.native.placement import HOTTEST, START, Rows, Setup
from tracekit.native.spindle import Disk
from tracekit.native.walk import SCENARIO, Prices, Walk, WalkKernel
from tracekit.profiles import Profile
from tracekit.recommend.answer import saved_ratio
from tracekit.schema import ROLES
from tracekit.simulate.block_orders import TouchedBlocks, order_blocks
from tracekit.simulate.head import base_cost, disk_of
from tracekit.simulate.ledger import disks_of, hold, time_ps
from tracekit.simulate.placement import device_cost, picoseconds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Devices = tuple[Profile, Profile]


@dataclass(frozen=True)
class Placed:
    """A placement, so many blocks of each role on NVM, and the devices that it is tried on."""

    touched: TouchedBlocks
    shares: Mapping[str, int]
    coverage: str
    devices: Sequence[Devices]  # first those that the recommendation was made for
    is_issued: bool
    is_open: bool


class Counter(Protocol):
    """Takes requests in their order."""

    def add(self, rows: Rows) -> None:
        """Take the next requests."""
        ...

    def finish(self) -> list[float] | None:
        """Return the gain on each of the devices, None where nothing takes time; begin anew."""
        ...


@contextmanager
def counters(placed: Placed) -> Iterator[tuple[Counter, Counter]]:
    """Yield a counter of the whole trace, and one of its windows on the first devices only."""
    with ExitStack() as stack:
        if placed.is_open:
            yield _queued(placed, stack)
            return
        disks = disks_of(list(placed.devices))
        held = hold(
            placed.touched,
            placed.shares,
            coverage=placed.coverage,
            is_issued=placed.is_issued,
            disks=disks,
        )
        whole, part = (stack.enter_context(Ledger(held)) for _ in range(2))
        yield _Counted(whole, placed.devices, disks), _Counted(part, placed.devices[:1], disks)


@dataclass
class _Counted:
    """Requests one after the other: their parts are counted and then priced."""

    ledger: Ledger
    devices: Sequence[Devices]
    disks: tuple[Disk, ...]

    def add(self, rows: Rows) -> None:
        self.ledger.add(rows)

    def finish(self) -> list[float] | None:
        counts = self.ledger.finish()
        if counts[0].is_empty:
            return None
        times = [[time_ps(one, pair, disks=self.disks) for one in counts] for pair in self.devices]
        return [saved_ratio(placed_ps, alone_ps) for alone_ps, placed_ps in times]


def _queued(placed: Placed, stack: ExitStack) -> tuple[Counter, Counter]:
    import numpy as np

    points = np.unique(np.array([0, *placed.shares.values()], np.int64))
    base, nvm = placed.devices[0]
    first, *others = (_prices(pair) for pair in placed.devices)
    plan = Walk(
        setup=Setup(
            keys=placed.touched.keys,
            blocks=order_blocks(placed.touched, points).blocks,
            devices=placed.touched.devices,
            point_count=len(points),
            is_issued=placed.is_issued,
            base=first.base,
            nvm=first.nvm,
        ),
        disk=first.disk,
        flush_ps=first.flush_ps,
        scenarios=_scenarios(placed, points),
        is_open=True,
        servers=(int(base.parallelism or 1), int(nvm.parallelism or 1)),
        others=tuple(others),
    )
    kernel = stack.enter_context(WalkKernel(plan, np.arange(2)))
    part = _Windowed(plan, kernel)
    stack.callback(part.close)
    return _Queued(kernel), part


def _prices(devices: Devices) -> Prices:
    base, nvm = devices
    flush_ps = (picoseconds(base.flush_us), picoseconds(nvm.flush_us))
    return Prices(base_cost(base), device_cost(nvm), disk_of(base), flush_ps)


def _scenarios(placed: Placed, points: NDArray[np.int64]) -> NDArray[np.void]:
    """Return the base alone and the placement."""
    import numpy as np

    scenarios = np.zeros(2, np.dtype(SCENARIO))
    scenarios["order"] = (HOTTEST, HOTTEST if placed.coverage == "hottest" else START)
    for role, blocks in placed.shares.items():
        if blocks:
            limit = int(np.searchsorted(points, blocks)) + 1
            scenarios["limit"][1, ROLES.index(role)] = limit
    return scenarios


@dataclass
class _Queued:
    """Requests that come at their times and queue: mean response times are compared."""

    kernel: WalkKernel

    def add(self, rows: Rows) -> None:
        self.kernel.add(rows)

    def finish(self) -> list[float] | None:
        self.kernel.finish()
        responses, answers = self.kernel.answers_ps()
        if not responses:
            return None
        return [saved_ratio(placed_ps, alone_ps) for alone_ps, placed_ps in answers]


@dataclass
class _Windowed:
    """A walk of its own for each window: its queues begin empty."""

    plan: Walk
    first: WalkKernel
    kernel: WalkKernel | None = None

    def add(self, rows: Rows) -> None:
        import numpy as np

        if self.kernel is None:
            self.kernel = WalkKernel(self.plan, np.arange(2), twin=self.first)
        self.kernel.add(rows)

    def finish(self) -> list[float] | None:
        found = _Queued(self.kernel).finish() if self.kernel is not None else None
        self.close()
        return found

    def close(self) -> None:
        if self.kernel is not None:
            self.kernel.__exit__(None, None, None)
        self.kernel = None
