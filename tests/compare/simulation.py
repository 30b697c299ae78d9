"""How often `compare` finds a difference in tables of which the truth is known.

`python -m tests.compare.simulation` prints rates of 5,000 tables each, and
`python -m tests.compare.simulation TRACE TARGET TABLES` those of real replays against themselves.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import tracekit as tk
from tracekit.compare import SHOWN, Group, Run, Values, table_rows
from tracekit.repeats import Turn, in_turn

KEYS = [
    ("elapsed", "all", "all"),
    *(("service_avg", role, way) for role in ("fs", "journal") for way in ("read", "write")),
    ("service_avg", "fs", "flush"),
]


@dataclass(frozen=True)
class Case:
    """Repeats of two configurations, of which each run takes times of `spread` around its mean."""

    repeats: int = 6
    drift: float = 0.0
    """By how much the machine is slower at the end than at the start."""
    effect: float = 0.0
    """By how much every time of the second is longer."""
    takes_turns: bool = True
    spread: float = 0.015
    tail: float | None = None
    """Degrees of freedom of Student's t that the logarithms have; None: they are normal."""

    def groups(self, random: np.random.Generator) -> list[Group]:
        """Return a table's worth of runs; half of a run's spread is of all of its rows."""
        order = np.concatenate(in_turn(2, self.repeats)) if self.takes_turns else None
        place = np.repeat([0, 1], self.repeats) if order is None else order
        shape = len(place), len(KEYS)
        own, common = self._noise(random, shape), self._noise(random, (len(place), 1))
        noise = self.spread * (own + common) / np.sqrt(2)
        slower = 1 + self.drift * np.arange(len(place)) / (len(place) - 1)
        times = 1e9 * slower[:, None] * np.exp(noise) * (1 + self.effect * place)[:, None]
        return [self._group(name, times, np.flatnonzero(place == side))
                for side, name in enumerate("ab")]  # fmt: skip

    def _noise(self, random: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        if self.tail is None:
            return random.standard_normal(shape)
        found: np.ndarray = random.standard_t(self.tail, shape)
        found /= np.sqrt(self.tail / (self.tail - 2))
        return found

    def _group(self, name: str, times: np.ndarray, places: np.ndarray) -> Group:
        runs, values = {}, Values()
        for number, place in enumerate(places.tolist(), 1):
            run = f"{name}.{number}"
            turn = Turn(series="s", pair=number, position=place + 1) if self.takes_turns else None
            runs[run] = Run(timing=None, counts=None, turn=turn)  # type: ignore[arg-type]
            for key, time in zip(KEYS, times[place].tolist(), strict=True):
                values.setdefault(key, {})[run] = time, 1000
        return Group(name, values, runs)


def rates(case: Case, tables: int, *, seed: int = 1) -> Mapping[str, float]:
    """Return the shares of tables with a difference after correction (any), before (raw); of rows.

    `cannot` is the share of rows without a verdict.
    """
    random = np.random.default_rng(seed)
    found = [list(_judged(case.groups(random))) for _ in range(tables)]
    rows = [row for table in found for row in table]
    return {
        "any": sum(any(verdict == "different" for verdict, _ in table) for table in found) / tables,
        "raw": sum(any((p or 1) < 0.05 for _, p in table) for table in found) / tables,
        "rows": sum(verdict == "different" for verdict, _ in rows) / len(rows),
        "cannot": sum(verdict == "cannot tell" for verdict, _ in rows) / len(rows),
    }


def _judged(groups: list[Group]) -> Iterator[tuple[str, float | None]]:
    for row in table_rows(groups):
        if row["name"] == "b" and row["measure"] in SHOWN:
            yield row["verdict"], row["p_value"]


CASES = {
    "nothing differs": Case(),
    "nothing differs, 4 % drift": Case(drift=0.04),
    "nothing differs, 4 % drift, 3 repeats": Case(drift=0.04, repeats=3),
    "nothing differs, 4 % drift, 20 repeats": Case(drift=0.04, repeats=20),
    "nothing differs, heavy tails": Case(tail=3.0),
    "nothing differs, one after the other": Case(takes_turns=False),
    "nothing differs, one after the other, 4 % drift": Case(takes_turns=False, drift=0.04),
    "10 % differ": Case(effect=0.1),
    "3 % differ, 4 % drift": Case(effect=0.03, drift=0.04),
    "3 % differ, 4 % drift, 12 repeats": Case(effect=0.03, drift=0.04, repeats=12),
}


ITSELF = "itself-a", "itself-b"


def measured(trace: str, target: str, tables: int) -> Iterator[str]:
    """Replay one configuration against itself, in turn and one group after the other."""
    opened = tk.open(trace)
    once: dict[str, Any] = {"target": target, "pace": "fast", "limit": 3000, "force": True}
    confirmed = opened.replay(**once, dry_run=True).summary["targets"][0].get("confirm_with")
    once |= {"write_to": confirmed} if confirmed else {}
    found: dict[str, list[list[Mapping[str, Any]]]] = {"in turn": [], "one after the other": []}
    for _ in range(tables):
        for takes_turns, kept in zip((True, False), found.values(), strict=True):
            both = dict.fromkeys(ITSELF, once)
            alone: list[Any] = [{"name": name, **once} for name in both]
            series = [{"run": both}] if takes_turns else alone
            for options in series:
                for one in opened.replays(repeat=6, **options):
                    one.check()
            rows = opened.compare(*ITSELF).summary["rows"]
            kept.append(
                [row for row in rows if row["name"] == ITSELF[1] and row["measure"] in SHOWN]
            )
    for way, kept in found.items():
        raw = sum(any(row["p_value"] < 0.05 for row in rows) for rows in kept)
        corrected = sum(any(row["verdict"] == "different" for row in rows) for rows in kept)
        yield f"| {way} | {len(kept)} | {len(kept[0])} | {raw} | {corrected} |"


if len(sys.argv) == 4 and __name__ == "__main__":
    print(*measured(sys.argv[1], sys.argv[2], int(sys.argv[3])), sep="\n")  # noqa: T201
elif __name__ == "__main__":
    print("| case | a row, raw | a row, corrected | rows found |\n|---|---|---|---|")  # noqa: T201
    for name, case in CASES.items():
        found = rates(case, 5_000)
        print(f"| {name} | {found['raw']:.1%} | {found['any']:.1%} | {found['rows']:.1%} |")  # noqa: T201
