"""A command with NVM as each part of the disk: the turns, what is kept, and what is refused."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.command_line import typed
from tests.lab.guests import lab, skip_unless_guests_run
from tracekit.counters import Rule
from tracekit.errors import InputError, PartialError, UsageError
from tracekit.lab import uses
from tracekit.lab.session import Ended, Job
from tracekit.lab.uses import UsesOptions, run_uses

DISKS = ("fs=64MiB:5ms:1", "journal=16MiB:5ms:1", "swap=128MiB:5ms:1")
OPTIONS = UsesOptions(DISKS, "2us", repeats=5)
JOB = Job(("true",))
SPEED = {"fs": 0.9, "journal": 1.0, "swap": 0.25}
Lab = list[tuple[str, ...]]


def use_of(job: Job) -> str:
    """Return which part is NVM in a guest: the one whose disk is fast."""
    fast = [part.role for disk in job.disks for part in disk.parts if part.latency_ns == 2000]
    return fast[0] if fast else uses.BASE


@pytest.fixture
def guests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    """Stand in for guests: they take a time that depends on what is NVM, and some chance."""
    ran: Lab = []
    chance = np.random.default_rng(3)

    @contextmanager
    def session(job: Job, **_on_step: Callable[[str], None]) -> Iterator[Ended]:
        use, folder = use_of(job), tmp_path / f"guest{len(ran)}"
        folder.mkdir()
        ran.append((use, *(part.role for part in job.disks[0].parts)))
        ns = SPEED.get(use, 1.0) * 60e9 * chance.normal(1, 0.02)
        (folder / "stdout").write_text(f"all: 9\nrate: ({6e12 / ns:.3f} per sec)\n")
        (folder / "stderr").write_text("no space\n")
        yield Ended(folder, int(job.command == ("false",)), "tcg", 1.0, round(ns))

    monkeypatch.setattr(uses, "session", session)
    return ran


def run(place: Path, options: UsesOptions = OPTIONS, job: Job = JOB) -> Any:
    return run_uses(place, options, job=job, on_step=lambda _text: None)


def options_with(*, rule: str = "", **change: Any) -> UsesOptions:
    return replace(OPTIONS, rule=Rule(rule), **change)


def test_each_part_is_nvm_in_turn_and_compared_with_the_disk(guests: Lab, tmp_path: Path) -> None:
    done = run(tmp_path / "uses")
    # THEN each use ran five times, in another order each time, the others together on one disk
    order = [name for name, *_ in guests]
    assert {name: order.count(name) for name in order} == dict.fromkeys(("base", *SPEED), 5)
    rounds = [tuple(order[at : at + 4]) for at in range(0, 20, 4)]
    assert all(sorted(one) == sorted(("base", *SPEED)) for one in rounds)
    assert len(set(rounds)) > 2
    kept = {name: parts for name, *parts in guests}
    assert kept["base"] == ["fs", "journal", "swap"]
    assert kept["journal"] == ["fs", "swap"]
    # AND means, intervals and ratios are scipy's
    times = {name: [r.elapsed_ns for r in done.runs if r.use == name] for name in kept}
    for one in done.uses:
        mine = np.array(times[one.use], float)
        ends = stats.t.interval(0.95, 4, mine.mean(), stats.sem(mine))
        assert (one.mean, one.low, one.high) == pytest.approx((mine.mean(), *ends))
        if one.use != "base":
            welch = stats.ttest_ind(np.log(mine), np.log(times["base"]), equal_var=False)
            inside = welch.confidence_interval()
            assert (one.ratio_low, one.ratio_high) == pytest.approx(np.exp([*inside]))
            assert one.ratio == pytest.approx(SPEED[one.use], rel=0.05)
    assert done.headline[-1] == "best measured: NVM as swap"
    assert "no difference that is certain" in done.headline[2]


def test_a_rate_is_better_where_it_is_more(guests: Lab, tmp_path: Path) -> None:
    options = replace(OPTIONS, rule=Rule(r"\(([0-9.]+) per sec"), repeats=3)
    done = run(tmp_path / "uses", options)
    rates = {one.use: one.mean for one in done.uses}
    assert rates["swap"] == pytest.approx(400, rel=0.1)
    assert rates["base"] == pytest.approx(100, rel=0.1)
    assert done.headline[-1] == "best measured: NVM as swap"
    assert len(guests) == 12


def test_what_is_done_is_kept_and_not_run_again(guests: Lab, tmp_path: Path) -> None:
    # GIVEN a series whose sixth guest was interrupted
    place = tmp_path / "uses"

    def stop(text: str) -> None:
        if text.startswith("run 6 "):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_uses(place, OPTIONS, job=JOB, on_step=stop)
    kept = json.loads((place / uses.RESULT).read_text())
    assert len(kept["runs"]) == len(guests) == 5
    # THEN another command does not go on with it, the same one does
    with pytest.raises(UsageError, match="was begun with nvm '2us', not '9us'"):
        run(place, replace(OPTIONS, nvm="9us"))
    with pytest.raises(UsageError, match="was begun with command"):
        run(place, job=Job(("false",)))
    done = run(place)
    assert len(guests) == len(done.runs) == 20
    assert [one.use for one in done.runs] == [name for name, *_ in guests]
    # AND more repeats add to it
    assert len(run(place, replace(OPTIONS, repeats=6)).runs) == len(guests) == 24


@pytest.mark.parametrize(
    ("change", "job", "error", "message"),
    [
        ({}, Job(("false",)), PartialError, "failed with status 1"),
        ({"rule": "(nothing)"}, JOB, InputError, "nowhere in the output of run 1 of base"),
        ({"rule": "all"}, JOB, UsageError, "0 groups"),
        ({"nvm": "fast"}, JOB, UsageError, "fast"),
        ({"repeats": 0}, JOB, UsageError, "not from 1"),
        ({"disks": ("fs=64MiB",)}, JOB, UsageError, "as fast as this machine's disk"),
        ({"disks": ("root=64MiB:1ms",)}, JOB, UsageError, "is no disk"),
    ],
)
@pytest.mark.usefixtures("guests")
def test_what_cannot_be_measured_is_an_error(
    change: dict[str, Any], job: Job, error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        run(tmp_path / "uses", options_with(**change), job)


def test_a_folder_of_something_else_is_left(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    disk = ("--disk", "fs=64MiB:5ms")
    status, talk = typed("lab", "uses", "-o", str(tmp_path), *disk, "--nvm", "2us", "--", "true")
    assert status == 2
    assert "exists already" in talk
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


@pytest.mark.slow
def test_a_command_that_swaps_gains_by_nvm_as_swap(tmp_path: Path) -> None:
    skip_unless_guests_run()
    script = "m = bytearray(40 << 20)\nfor at in range(0, len(m), 4096): m[at] = 1"
    disks = [word for text in DISKS for word in ("--disk", text)]
    ran = lab(
        *("uses", "-o", str(tmp_path / "uses"), *disks, "--nvm", "2us:1", "--repeat", "2"),
        *("--limit", "24MiB", "--json", "--", "python3", "-c", script),
    )
    assert ran.returncode == 0, ran.stderr
    found = {one["use"]: one for one in json.loads(ran.stdout)["uses"]}
    assert found["swap"]["ratio"] < 0.7
    assert 0.7 < found["journal"]["ratio"] < 1.5
