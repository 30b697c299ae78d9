"""What a processor that others have took away: found, left out, and run again where it is much."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracekit.device.characterize as measuring
import tracekit.replay.verify_runs as verifying
from tests.command_line import invoke
from tests.prove.test_prove import requests
from tests.simulate.placement_models import write_trace
from tests.traces import json_of
from tracekit.device.characterize import CharacterizeOptions, characterize
from tracekit.device.steps import ALL, Amounts, read_latencies
from tracekit.device.target import TargetOptions
from tracekit.machine_state import Use
from tracekit.replay.completions import HEADER, RECORD
from tracekit.replay.without_stolen import Took, times_without
from tracekit.stolen_time import ATTEMPTS, StealWatch, Stretches, stretches_of

MS = 1_000_000
EVER = 1 << 62


def stretches(*pairs: tuple[int, int]) -> Stretches:
    begin, end = np.array(pairs, np.int64).reshape(-1, 2).T
    return Stretches(begin, end)


@pytest.mark.parametrize(
    ("stolen", "expected"),
    [
        ([5, 5, 5, 5, 5, 5], []),
        ([5, 5, 5, 6, 6, 6], [(10, 40)]),
        # kernels count down, too; at the ends there is no look beside
        ([5, 4, 4, 4, 4, 9], [(0, 20), (30, 50)]),
        ([0, 0, 1, 1, 2, 2], [(0, 50)]),
        ([7], []),
    ],
)
def test_stretches_have_a_look_on_each_side(
    stolen: list[int], expected: list[tuple[int, int]]
) -> None:
    times = np.arange(len(stolen)) * 10
    found = stretches_of(times, np.array(stolen))
    assert [*zip(found.begin_ns.tolist(), found.end_ns.tolist(), strict=True)] == expected


def test_clear_is_what_touches_no_stretch() -> None:
    chance = np.random.default_rng(3)
    edges = np.sort(chance.choice(1000, 40, replace=False)).reshape(-1, 2)
    found = Stretches(*edges.T)
    begin = chance.integers(0, 1000, 500)
    end = begin + chance.integers(0, 60, 500)
    known = [
        not any(low <= last and high >= first for low, high in edges.tolist())
        for first, last in zip(begin.tolist(), end.tolist(), strict=True)
    ]
    assert found.clear(begin, end).tolist() == known
    assert 0 < sum(known) < 500
    shared = (min(700, high) - max(200, low) for low, high in edges.tolist())
    assert found.within(200, 700) == sum(max(0, one) for one in shared)
    assert found.since(100).begin_ns.tolist() == (edges[:, 0] - 100).tolist()


def test_a_watch_sees_what_the_kernel_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  1 2 3 4 5 6 7 8 0 0\n")
    monkeypatch.setattr("tracekit.stolen_time.STAT", stat)
    monkeypatch.setattr("tracekit.stolen_time.LOOK_S", 0.001)
    with StealWatch() as quiet:
        pass
    assert len(quiet.found().begin_ns) == 0
    with StealWatch() as watch:
        while len(watch._looks) < 3:
            pass
        stat.write_text("cpu  1 2 3 4 5 6 7 9 0 0\n")
    assert len(watch.found().begin_ns) == 1
    # AND a system without the counter leaves nothing out
    monkeypatch.setattr("tracekit.stolen_time.STAT", tmp_path / "none")
    with StealWatch() as blind:
        pass
    assert len(blind.found().begin_ns) == 0


def took(step_ns: Any, *, service_ns: Any = None, role: Any = None, clear: Any = None) -> Took:
    step_ns = np.asarray(step_ns)
    service_ns = step_ns - 1 if service_ns is None else service_ns
    role = np.zeros(len(step_ns), int) if role is None else role
    return Took(step_ns, service_ns, role, np.ones(len(step_ns), bool) if clear is None else clear)


def test_replays_take_what_they_take_without_the_stolen_time() -> None:
    # GIVEN requests of known cost in five replays of different speed, of which a fifth each was
    # stopped for long now and then
    chance = np.random.default_rng(8)
    cost = chance.integers(20, 400, 3000) * 1000
    role = chance.integers(0, 3, 3000)
    runs, known = [], []
    for speed in (1.0, 1.1, 0.9, 1.05, 0.95):
        clear = np.repeat(chance.random(30) > 0.2, 100)
        step = np.rint(cost * speed).astype(int)
        known.append((step.sum(), [(step[role == n] - 1).sum() for n in range(3)]))
        stopped = np.where(clear, step, step + chance.integers(0, 10**7, 3000))
        runs.append(took(stopped, role=role, clear=clear))
        assert stopped.sum() > 2 * step.sum()
    # THEN each takes what it would have, by role too: the cost of a window is not that of another
    for (time_ns, role_ns), (step_ns, by_role) in zip(times_without(runs), known, strict=True):
        assert time_ns == pytest.approx(step_ns, rel=0.02)
        assert [*role_ns.values()] == pytest.approx(by_role, rel=0.02)


def test_nothing_changes_where_nothing_was_stolen_or_everything() -> None:
    runs = [took([1000, 3000, 70]), took([1100, 2900, 90])]
    assert [time_ns for time_ns, _ in times_without(runs)] == [4070, 4090]
    assert [sum(found.values()) for _, found in times_without(runs)] == [4067, 4087]
    lost = [replace(one, is_clear=np.zeros(3, bool)) for one in runs]
    assert times_without(lost) == times_without(runs)
    with pytest.raises(ValueError, match="not of the same requests"):
        times_without([took([1]), took([1, 2])])


def test_latencies_are_those_outside_of_the_stretches(tmp_path: Path) -> None:
    header = np.zeros((), HEADER)
    header["magic"], header["record_bytes"] = b"TKDONE\r\n", RECORD.itemsize
    rows = [(n, 0, n * 100, n * 100 + (5000 if n == 7 else 90), 0, 0, 0, n % 2) for n in range(9)]
    file = tmp_path / "a"
    file.write_bytes(header.tobytes() + np.array(rows, RECORD).tobytes())
    found, pace = read_latencies(file, 9, depth=1, stolen=stretches((310, 350), (695, 6000)))
    # THEN request 3 and all from 7 on, and 6 that ends at 690, are told apart
    assert {name: (one.count, one.mean) for name, one in found.items()} == {
        ALL: (6, 90.0), "read": (4, 90.0), "write": (2, 90.0)
    }  # fmt: skip
    assert pace.seen == 9


class Thief:
    """A watch that sees everything stolen in its first turns, and nothing in those behind."""

    def __init__(self, turns: int) -> None:
        self.left, self.asked = turns, 0

    def __call__(self) -> Any:
        self.asked += 1
        return self

    def __enter__(self) -> "Thief":
        return self

    def __exit__(self, *_: object) -> None:
        self.left -= 1

    def found(self) -> Stretches:
        return stretches((0, EVER)) if self.left >= 0 else Stretches()


AMOUNTS = Amounts(
    fill_percent=0, precondition=0, writes=50, reads=50, sizes=20, flushes=20, surface=50,
    write_percents=(50,), depths=(4,),
)  # fmt: skip


@pytest.mark.parametrize(("turns", "left_out"), [(0, 0.0), (ATTEMPTS - 1, 0.0), (ATTEMPTS, 0.1)])
def test_a_step_that_lost_most_of_it_is_run_again(
    turns: int, left_out: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    thief = Thief(turns)
    monkeypatch.setattr(measuring, "StealWatch", thief)
    monkeypatch.setattr(measuring, "LEAST", 10)  # requests, of which smaller steps have fewer
    target = TargetOptions(path=tmp_path / "new.img", size_bytes=8 << 20)
    found = characterize(tmp_path / "out", CharacterizeOptions(target=target, amounts=AMOUNTS))
    # THEN it is run again as long as it may help, and what is left out is told
    assert thief.asked == found["steps"] + min(turns, ATTEMPTS - 1)
    assert (found["left_out_ratio"] > 0) == (left_out > 0)
    assert any("are left out, as the hypervisor" in one for one in found["warnings"]) == (
        left_out > 0
    )


@pytest.mark.parametrize(("turns", "ratio"), [(1, 0.0), (2 * ATTEMPTS, 1 / 3)])
def test_a_replay_that_lost_most_of_it_is_run_again(
    turns: int, ratio: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_trace(
        tmp_path / "trace", requests(), counts={"requests": 150}, source={"files": []}
    )
    for name in ("base", "nvm"):
        (tmp_path / f"{name}.img").write_bytes(bytes(8 << 20))
    assert invoke("recommend", folder, "--base", "hdd-7200").exit_code == 0
    thief = Thief(turns)
    monkeypatch.setattr(verifying, "StealWatch", thief)
    words = [word for name in ("base", "nvm") for word in (
        "--target", f"{'' if name == 'base' else 'nvm='}{tmp_path}/{name}.img",
        "--write-to", f"{tmp_path}/{name}.img")]  # fmt: skip
    invoke("verify-placement", folder, *words, "--repeat", "2", "--tolerance", "1",
           "--time-tolerance", "1e6")  # fmt: skip
    told = json_of(folder / "verification.json")
    assert told["left_out_ratio"] == pytest.approx(ratio)
    # THEN of base, placement and runner-up, twice each, the first two are run again
    assert thief.asked == 6 + min(turns, 4)
    assert any("count with what they took in other repeats" in one for one in told["headline"]) == (
        ratio > 0
    )


@pytest.mark.parametrize(
    ("use", "is_busy", "words"),
    [
        (Use(0.0, 0.17, left_out_ratio=0.4), False, "17.0% of time was stolen, 40.0% of requests"),
        (Use(0.0, 0.17, left_out_ratio=0.51), True, "51.0% of requests left out for it"),
        (Use(0.0, 0.17), True, "17.0% of time was stolen"),
        (Use(0.6, 0.0, left_out_ratio=0.0), True, "0.6 other tasks ran, 0.0% of time was stolen"),
    ],
)
def test_what_was_left_out_does_not_make_a_machine_busy(
    use: Use, is_busy: bool, words: str
) -> None:
    assert use.is_busy == is_busy
    assert words in use.words
