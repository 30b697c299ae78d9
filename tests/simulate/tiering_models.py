"""Tiering as its definition reads, one extent after another: what the native models must equal."""

from collections.abc import Sequence

Latency = tuple[float, float]  # read and write, us
Traffic = dict[int, tuple[int, int]]  # reads and writes by extent

STUDY: list[Latency] = [(6.7, 128.3), (108.0, 37.1), (5000.0, 5000.0)]


def saving(tiers: Sequence[Latency], start: int, end: int, amount: tuple[int, int]) -> float:
    reads, writes = amount
    (slow_read, slow_write), (read, write) = tiers[start], tiers[end]
    return (slow_read - read) * reads + (slow_write - write) * writes


def algorithm_1(
    tiers: Sequence[Latency], traffic: Traffic, places: Sequence[int]
) -> tuple[dict[int, int], list[int]]:
    """Return the tier of each extent, and the extents in the order of placement."""
    last = len(tiers) - 1
    scores = {e: [saving(tiers, last, t, traffic[e]) for t in range(last)] for e in traffic}
    order = sorted(traffic, key=lambda e: (-max(scores[e]), e))
    left, tier_of = list(places[:last]), {}
    for e in order:
        liked = sorted(range(last), key=lambda t, e=e: (-scores[e][t], -t))  # type: ignore[misc]
        tier_of[e] = next((t for t in liked if left[t] > 0), last)
        if tier_of[e] != last:
            left[tier_of[e]] -= 1
    return tier_of, order


class Dynamic:
    """The state of one run: where each extent is, and what one window brought and moved."""

    def __init__(self, tiers: Sequence[Latency], extents: int, places: Sequence[int]) -> None:
        self.tiers, self.places = tiers, places
        slots = [t for t in reversed(range(len(tiers))) for _ in range(places[t])]
        self.tier_of = slots[:extents]

    def serve(self, traffic: Traffic) -> list[list[int]]:
        rows = [[0] * 6 for _ in self.tiers]
        for e, (reads, writes) in traffic.items():
            rows[self.tier_of[e]][0] += reads
            rows[self.tier_of[e]][1] += writes
        return rows

    def migrate(self, traffic: Traffic, budget: int) -> list[tuple[int, int]]:
        """Move extents after a window; return each move as the tiers it went from and to."""
        wanted, order = algorithm_1(self.tiers, traffic, self.places)
        moves: list[tuple[int, int]] = []
        idle = [e for e in range(len(self.tier_of)) if e not in traffic]
        waiting: list[list[int]] = [
            [e for e in [*idle, *reversed(order)] if self.tier_of[e] == t and wanted.get(e) != t]
            for t in range(len(self.tiers))
        ]

        def gain(e: int, to: int) -> float:
            return saving(self.tiers, self.tier_of[e], to, traffic.get(e, (0, 0)))

        def move(e: int, to: int) -> None:
            moves.append((self.tier_of[e], to))
            if e in waiting[self.tier_of[e]]:
                waiting[self.tier_of[e]].remove(e)
            self.tier_of[e] = to
            if wanted.get(e) != to:
                waiting[to].append(e)

        for e in sorted(traffic, key=lambda e: (-gain(e, wanted[e]), e)):
            start, end = self.tier_of[e], wanted[e]
            if gain(e, end) <= 0:
                continue
            if self.tier_of.count(end) < self.places[end]:
                if len(moves) + 1 > budget:
                    break
                move(e, end)
            else:
                other = waiting[end][0]
                if gain(e, end) + gain(other, start) <= 0:
                    continue
                if len(moves) + 2 > budget:
                    break
                move(e, end)
                move(other, start)
        return moves


def dynamic(
    tiers: Sequence[Latency],
    windows: Sequence[Traffic],
    extents: int,
    *,
    mix: tuple[list[int], int],
) -> list[list[int]]:
    """Return one record a window, as `tracekit._native.tiering.Migration.windows` does."""
    places, budget = mix
    state, records = Dynamic(tiers, extents, places), []
    for number, traffic in enumerate(windows):
        rows = state.serve(traffic)
        moves = state.migrate(traffic, budget) if number + 1 < len(windows) else []
        for start, end in moves:
            is_down = end > start
            rows[start][4 if is_down else 2] += 1
            rows[end][5 if is_down else 3] += 1
        up = sum(end < start for start, end in moves)
        records.append([value for row in rows for value in row] + [up, len(moves) - up])
    return records
