"""The emulated engine: when a device that exists as its service times is done."""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.command_line import invoke, succeed
from tests.replay.program import (
    DISK,
    Record,
    Replay,
    content,
    device,
    expected_content,
    record,
    run_first,
    stop_in_the_run,
)
from tests.replay.timeless import Devices
from tests.replay.trace import ROWS, trace
from tests.traces import json_of
from tracekit.devices import mean_of
from tracekit.errors import UsageError
from tracekit.plans.block_plan import FLUSH, FUA, PREFLUSH, READ, WRITE, WRITE_ZEROES
from tracekit.report.sections.replay import lateness

SPEC = {
    "read_setup_ns": 100_000,
    "write_setup_ns": 300_000,
    "sequential_setup_ns": 20_000,
    "read_bytes_s": 4_096_000_000,
    "write_bytes_s": 409_600_000,
    "flush_ns": 500_000,
    "empty_flush_ns": 200_000,
    "fua_ns": 50_000,
}
# A machine under load may look at the clock late; it must never look early.
LATE_NS = 2_000_000


def emulated(**changes: int | str) -> dict[str, Any]:
    """Return the options of a run on the device."""
    return {"engine": "emulated", "emulate": device(**(SPEC | changes))}


ONE_BY_ONE: dict[str, Any] = {"pace": "fast", "depth": 1}


Quantiles = list[tuple[float, int]]
FORM: Quantiles = [(0, 40_000), (0.25, 60_000), (0.5, 90_000), (0.99, 250_000), (1, 2_000_000)]
DRAWN = {f"{name}_setup_quantiles": "+".join(f"{p}@{ns}" for p, ns in FORM) for name in ("read",)}


def mixed_bits(value: int) -> int:
    """Return the finalizer of SplitMix64."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        value = (value ^ (value >> shift)) * factor % 2**64
    return value ^ (value >> 31)


def drawn_ns(number: int, seed: int = 0, form: Quantiles = FORM) -> int:
    """Say what a request of the first target draws, from the words of INTERFACE.md."""
    golden = 0x9E3779B97F4A7C15
    sequence = mixed_bits((seed + golden) % 2**64)
    unit = (mixed_bits((sequence + (number + 1) * golden) % 2**64) >> 11) / 2**53
    (p, low), (q, high) = next(pair for pair in pairwise(form) if unit < pair[1][0])
    return int(low * math.pow(high / low, (unit - p) / (q - p)) + 0.5)


def service_ns(
    before_end: int | None,
    row: Record,
    *,
    number: int = 0,
    is_drawn: bool = False,
    is_written: bool = True,
) -> int:
    """Say what a request costs, from the words of INTERFACE.md."""
    _, sector, _, sectors, operation, flags, *_ = row
    flush_ns = SPEC["flush_ns" if is_written else "empty_flush_ns"]
    if operation == FLUSH:
        return flush_ns
    if operation not in (READ, WRITE):
        return 0
    word = "read" if operation == READ else "write"
    if sector == before_end:
        cost = SPEC["sequential_setup_ns"]
    else:
        cost = drawn_ns(number) if is_drawn and operation == READ else SPEC[f"{word}_setup_ns"]
    cost += sectors * 512 * 1_000_000_000 // SPEC[f"{word}_bytes_s"]
    cost += SPEC["fua_ns"] if flags & FUA else 0
    return cost + (flush_ns if flags & PREFLUSH else 0)


def mixed(count: int, gap_ns: int) -> list[Record]:
    random = np.random.default_rng(7)
    rows, end = [], 0
    for number in range(count):
        operation = int(random.choice([READ, WRITE, WRITE, FLUSH, WRITE_ZEROES]))
        sectors = 0 if operation == FLUSH else int(random.integers(1, 64))
        sector = end if random.random() < 0.5 else int(random.integers(0, 10_000))
        flags = int(random.choice([0, FUA, PREFLUSH])) if operation == WRITE else 0
        sector = 0 if operation == FLUSH else sector
        rows.append(record(operation, sector, sectors, at_ns=number * gap_ns, flags=flags))
        end = end if operation == FLUSH else sector + sectors
    return rows


def finds_written(rows: list[Record]) -> Iterator[bool]:
    """Yield before each request whether something is there to flush."""
    is_written = False
    for row in rows:
        yield is_written
        is_flush = row[4] == FLUSH or row[5] & PREFLUSH
        is_written = (is_written and not is_flush) or (row[4] == WRITE and not row[5] & FUA)


def end_of(row: Record, before: int | None) -> int | None:
    """Return where the last transfer ended."""
    return row[1] + row[3] if row[4] in (READ, WRITE) else before


def modelled_ns(
    rows: list[Record], submits_ns: list[int], *, lanes: int, is_drawn: bool = False
) -> list[int]:
    """Say when each request is done, from the words of INTERFACE.md, server by server."""
    free, written, end, done = [0] * lanes, 0, None, []
    for number, (row, submit_ns, is_written) in enumerate(
        zip(rows, submits_ns, finds_written(rows), strict=True)
    ):
        lane = min(range(lanes), key=free.__getitem__)
        start = max(free[lane], submit_ns)
        if row[4] == FLUSH or row[5] & PREFLUSH:
            start = max(start, written)
            lane = max((n for n in range(lanes) if free[n] <= start), key=free.__getitem__)
        free[lane] = start + service_ns(
            end, row, number=number, is_drawn=is_drawn, is_written=is_written
        )
        written = max(written, free[lane]) if row[4] == WRITE else written
        end = end_of(row, end)
        done.append(free[lane])
    return done


@pytest.mark.plain
@pytest.mark.parametrize(("lanes", "is_drawn"), [(1, False), (2, True), (3, False), (8, True)])
def test_each_request_is_done_when_the_device_would_be(
    replay: Replay, lanes: int, is_drawn: bool
) -> None:
    # GIVEN requests that come faster than the device serves them
    rows = mixed(400, 250_000 // lanes)
    # WHEN they run at their times
    ran = replay(rows, **emulated(lanes=lanes, **(DRAWN if is_drawn else {})))
    # THEN none is done before the explicit queue of that many servers says, from its submission on
    done = ran.by_id()
    submits_ns = done["submit_ns"].tolist()
    expected = modelled_ns(rows, submits_ns, lanes=lanes, is_drawn=is_drawn)
    late = [int(ns) - own for ns, own in zip(done["complete_ns"], expected, strict=True)]
    assert min(late) >= 0
    # and what is said of the device is that, to the ns; the rest of the times is lateness
    (said,) = ran.summary["emulation"]["devices"]
    took = [own - submit for own, submit in zip(expected, submits_ns, strict=True)]
    assert (said["modelled_sum_ns"], said["lateness_sum_ns"]) == (sum(took), sum(late))
    for name, values in (("modelled", took), ("lateness", late)):
        found = said[name]
        assert (found["count"], found["min_ns"], found["max_ns"]) == (
            len(rows),
            min(values),
            max(values),
        )
        for key, percent in (("p50_ns", 50), ("p99_ns", 99), ("p99_9_ns", 99.9)):
            exact = np.percentile(values, percent, method="inverted_cdf")
            assert exact <= found[key] <= 1.008 * exact + 1


Served = Callable[[str, list[Record], list[int]], list[int]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    """Return what serves requests on the program's own device, without a clock."""
    devices = Devices(tmp_path_factory.mktemp("device"))

    def serve(spec: str, rows: list[Record], submits_ns: list[int]) -> list[int]:
        named = [(number, row[1], row[3], row[4], row[5]) for number, row in enumerate(rows)]
        return devices.serve(spec, named, submits_ns)

    return serve


@pytest.mark.parametrize("is_drawn", [False, True])
@pytest.mark.parametrize("lanes", [1, 2, 5, 64])
def test_a_device_is_an_explicit_queue_event_by_event(
    served: Served, lanes: int, is_drawn: bool
) -> None:
    rows, chance = mixed(4000, 0), np.random.default_rng(lanes)
    submits_ns = np.cumsum(chance.integers(0, 500_000 // lanes, len(rows))).tolist()
    spec = device(**(SPEC | {"lanes": lanes} | (DRAWN if is_drawn else {})))
    expected = modelled_ns(rows, submits_ns, lanes=lanes, is_drawn=is_drawn)
    assert served(spec, rows, submits_ns) == expected


Cell = tuple[str, int, int, float, Quantiles]
CELLS: list[Cell] = [
    (operation, length, depth, share, [(0, base), (0.9, 2 * base), (1, 9 * base)])
    for operation, shares in (("r", (0, 0.5)), ("w", (0.5, 1)))
    for length in (4096, 65536)
    for depth in (1, 4, 16)
    for share in shares
    for base in [round((20_000 if operation == "r" else 90_000) * depth + length + 1000 * share)]
]


def cells_text(cells: list[Cell]) -> str:
    return ";".join(
        f"{op}/{length}/{depth}/{share}/" + "+".join(f"{p}@{ns}" for p, ns in quantiles)
        for op, length, depth, share, quantiles in cells
    )


def nearest(cells: list[Cell], wanted: tuple[str, int, int, float]) -> Cell:
    """Say which cell a request draws from, from the words of INTERFACE.md."""
    op, length, depth, share = wanted
    return min(
        (cell for cell in cells if cell[0] == op),
        key=lambda c: (
            abs(math.log2(c[1] / length)) + abs(math.log2(c[2] / depth)) + 4 * abs(c[3] - share)
        ),
    )


def with_cells_ns(rows: list[Record], submits_ns: list[int], *, lanes: int) -> list[int]:
    """Say when each read and write is done on a device of which CELLS were measured."""
    free, end, done, kinds = [0] * lanes, None, [], ""
    for number, (row, submit_ns) in enumerate(zip(rows, submits_ns, strict=True)):
        lane = min(range(lanes), key=free.__getitem__)
        start = max(free[lane], submit_ns)
        length, word = row[3] * 512, "read" if row[4] == READ else "write"
        kinds = (kinds + word[0])[-64:]
        depth = 1 + sum(one > start for one in free)
        rate = SPEC[f"{word}_bytes_s"]
        if row[1] == end:
            cost = SPEC["sequential_setup_ns"] + length * 10**9 // rate
        else:
            cell = nearest(CELLS, (word[0], length, depth, kinds.count("w") / len(kinds)))
            more = abs(length - cell[1]) * 10**9 // rate
            cost = drawn_ns(number, form=cell[4])
            cost = cost + more if length >= cell[1] else max(cost - more, 1)
        free[lane] = start + cost + (SPEC["fua_ns"] if row[5] & FUA else 0)
        end = row[1] + row[3]
        done.append(free[lane])
    return done


@pytest.mark.parametrize("gap_ns", [3_000, 60_000, 900_000])
def test_a_device_of_measured_cells_draws_from_the_nearest(served: Served, gap_ns: int) -> None:
    chance = np.random.default_rng(gap_ns)
    rows = [
        record(
            READ if chance.random() < (0.9 if number < 1500 else 0.3) else WRITE,
            int(chance.integers(0, 10**6)), int(chance.choice([1, 8, 40, 128, 500])),
            flags=int(chance.choice([0, 0, FUA])),
        )
        for number in range(3000)
    ]  # fmt: skip
    rows[7:9] = [record(READ, 80, 8), record(READ, 88, 8)]
    submits_ns = np.cumsum(chance.integers(0, gap_ns, len(rows))).tolist()
    spec = device(**SPEC, lanes=16, cells=cells_text(CELLS))
    assert served(spec, rows, submits_ns) == with_cells_ns(rows, submits_ns, lanes=16)


def test_cells_are_in_the_summary_and_checked(replay: Replay) -> None:
    rows = [record(READ, 8 * number, 8) for number in range(20)]
    ran = replay(rows, **emulated(lanes=4, cells=cells_text(CELLS)))
    assert ran.summary["targets"][0]["device"]["cells"] == len(CELLS)
    for wrong in ("x/4096/1/0/0@1+1@2", "r/0/1/0/0@1+1@2", "r/4096/1/2/0@1+1@2", "r/4096/1/0/0@1",
                  "r/4096/1/0", cells_text(CELLS) + ";"):  # fmt: skip
        refused = replay(rows, **emulated(lanes=4, cells=wrong))
        refused.refused("--emulate: cells=", code=2, lines=2)


def test_what_is_drawn_has_the_distribution(served: Served) -> None:
    from scipy import stats

    # GIVEN 50,000 reads that take nothing but their setup, alone
    rows = [record(READ, 1000 * (n % 2), 1) for n in range(50_000)]
    submits_ns = [n * 10**9 for n in range(len(rows))]
    spec = device(read_setup_ns=0, read_bytes_s=10**15, **DRAWN)
    times = np.array(served(spec, rows, submits_ns)) - submits_ns
    # THEN scipy finds no difference from the quantiles, but from any that differ a little
    probabilities, ends_ns = zip(*FORM, strict=True)

    def distribution(factor: float) -> float:
        logs = np.log(np.array(ends_ns) * factor)
        found = stats.kstest(times, lambda ns: np.interp(np.log(ns), logs, probabilities))
        return float(found.pvalue)

    assert distribution(1.0) > 0.01
    assert distribution(1.03) < 1e-6
    # and the mean is the one that the profile is scaled by
    error = times.std() / len(times) ** 0.5
    assert abs(times.mean() - mean_of([(p, ns) for p, ns in FORM])) < 4 * error
    # another seed draws other times of the same distribution, the same seed the same
    other = np.array(served(f"{spec},seed=5", rows, submits_ns)) - submits_ns
    assert (other != times).mean() > 0.99
    assert stats.ks_2samp(other, times).pvalue > 0.01


@pytest.mark.parametrize(
    "words",
    [
        "0@5",
        "0@5+1@4",
        "0@5+0.5@6",
        "0.1@5+1@6",
        "0@0+1@5",
        "0@5+0.5@6+0.5@7+1@8",
        "0@5+1@6+",
        "0@5+1@1000000000001",
        "-0@5+1@6",
        "+".join(f"{n / 70}@{n + 1}" for n in range(71)),
    ],
)
def test_what_is_no_distribution_is_rejected(replay: Replay, words: str) -> None:
    spec = device(**SPEC, read_setup_quantiles=words)
    ran = replay([record(READ, 0, 1)], engine="emulated", emulate=spec)
    ran.refused("--emulate: read_setup_quantiles=", code=2, lines=2)


def test_a_disk_draws_nothing(replay: Replay) -> None:
    ran = replay([record(READ, 0, 1)], **emulated(**DISK, **DRAWN))
    ran.refused("--emulate: a key is missing", code=2, lines=2)


@pytest.mark.plain
def test_as_fast_as_possible_and_one_at_a_time_is_the_sum_of_service_times(replay: Replay) -> None:
    rows = mixed(300, 0)
    ran = replay(rows, **emulated(), **ONE_BY_ONE)
    end, total = None, 0
    for row, is_written in zip(rows, finds_written(rows), strict=True):
        total += service_ns(end, row, is_written=is_written)
        end = end_of(row, end)
    assert total <= ran.summary["timing"]["elapsed_ns"] < 3 * total
    assert ran.summary["engine"]["backing"] == "null"


def position_ns(head: int | None, sector: int, operation: int) -> int:
    """Say what it takes to get to a sector, from the words of INTERFACE.md."""
    if head == sector:
        return 0
    settle = DISK["write_settle_ns"] if operation == WRITE else 0
    if head is None:
        return DISK["seek_unknown_ns"] + settle + DISK["half_turn_ns"]
    if abs(sector - head) < DISK["track_sectors"]:
        return DISK["half_turn_ns"]
    share = min(abs(sector - head) / DISK["capacity_sectors"], 1.0)
    curve = DISK["seek_root_ns"] * share**0.5 + DISK["seek_linear_ns"] * share
    return int(DISK["seek_track_ns"] + curve) + settle + DISK["half_turn_ns"]


@pytest.mark.plain
def test_a_disk_moves_its_head(replay: Replay) -> None:
    # GIVEN transfers near and far, at the same place and behind the one before, and flushes
    rows = mixed(300, 0)
    # WHEN they run one after the other on a disk with a sequential setup of 20 us
    ran = replay(rows, **emulated(**DISK), **ONE_BY_ONE)
    # THEN each takes the position of the head, the transfer and what was asked beside it
    head, errors = None, []
    for row, found, is_written in zip(rows, ran.by_id(), finds_written(rows), strict=True):
        _, sector, _, sectors, operation, *_ = row
        expected = service_ns(sector, row, is_written=is_written)  # with the sequential setup
        if operation in (READ, WRITE):
            expected += position_ns(head, sector, operation)
            head = sector + sectors
        errors.append(int(found["complete_ns"]) - int(found["submit_ns"]) - expected)
    # the program's sums are rounded down, in several steps
    assert min(errors) >= -5
    assert np.median(errors) < LATE_NS
    assert ran.target["device"]["seek_linear_ns"] == -200_000


def test_a_label_has_its_own_device_and_its_own_queue(replay: Replay) -> None:
    rows = [record(READ, 0, 8), record(READ, 100, 8, target=1), record(READ, 200, 8)]
    slow = device(**(SPEC | {"read_setup_ns": 30_000_000}))
    devices = [f"journal:{slow}", device(**SPEC)]
    ran = replay(rows, labels=("default", "journal"), engine="emulated", emulate=devices)
    done = ran.by_id()
    took = (done["complete_ns"] - done["submit_ns"]).tolist()
    assert all(ns >= least for ns, least in zip(took, (101_000, 30_001_000, 202_000), strict=True))
    setups = [target["device"]["read_setup_ns"] for target in ran.summary["targets"]]
    assert setups == [100_000, 30_000_000]


def test_the_only_label_may_be_named(replay: Replay) -> None:
    ran = replay([record(READ, 0, 1)], engine="emulated", emulate="default:" + device(**SPEC))
    assert ran.code == 0, ran.messages


def test_with_a_target_the_data_moves_too(replay: Replay, target: Path) -> None:
    rows = mixed(300, 0)
    options = {"target": target, "keep": True, **emulated(), **ONE_BY_ONE}
    ran = replay(rows, needed_sectors=10_064, **options)
    assert ran.code == 0
    assert ran.summary["engine"]["backing"] in ("io_uring", "threads")
    assert (content(target) == expected_content(rows, target.stat().st_size)).all()
    took = ran.rows()["complete_ns"] - ran.rows()["submit_ns"]
    assert int(took.sum()) >= sum(
        service_ns(None, row, is_written=is_written)
        for row, is_written in zip(rows, finds_written(rows), strict=True)
        if row[4] == FLUSH
    )


def test_the_command_takes_profiles_by_role(tmp_path: Path) -> None:
    folder = trace(tmp_path / "trace", ROWS)
    words = "--engine emulated --device hdd-15k --device journal=dax-pcm --pace fast --depth 1"
    done = succeed("replay", folder.path, *words.split())
    assert "emulated devices: hdd-15k, journal=dax-pcm" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--engine emulated", "--engine emulated --device hdd-7200"),
        ("--device hdd-15k", "need each other"),
        ("--engine emulated --device hdd-15", "did you mean hdd-15k?"),
        ("--engine emulated --device log=hdd-15k", "there is no role 'log'"),
        ("--engine emulated --device hdd-15k --device dax-pcm", "a device already"),
    ],
)
def test_the_command_refuses_what_is_no_device(tmp_path: Path, words: str, message: str) -> None:
    folder = trace(tmp_path / "trace", ROWS)
    done = invoke("replay", folder.path, *words.split())
    assert isinstance(done.exception, UsageError)
    assert message in f"{done.exception} {done.exception.hint}"


SLOW = SPEC | {"read_setup_ns": 100_000_000}
READS = [record(READ, 100 * n, 8) for n in range(6)]


@pytest.mark.parametrize("is_stopped", [False, True])
def test_the_emulation_knows_when_it_was_late(
    replay: Replay, tmp_path: Path, is_stopped: bool
) -> None:
    # GIVEN a replay whose processor is taken away for 400 ms, and one that has it before others
    if is_stopped:
        stop_in_the_run(tmp_path, 0.4)
    for _ in range(5):
        ran = replay(
            READS, engine="emulated", emulate=device(**SLOW), preexec_fn=run_first, **ONE_BY_ONE
        )
        # A virtual machine may lose its processors to others at any time.
        if is_stopped or ran.summary["emulation"]["is_within_budget"]:
            break
    # THEN the one says that its times are not the device's, and the other that they are
    said = ran.summary["emulation"]
    assert said["is_within_budget"] is not is_stopped
    (own,) = said["devices"]
    if is_stopped:
        assert own["lateness"]["max_ns"] > 250_000_000
        assert own["lateness_ratio"] > 0.4
    # the data were not late, as there were none
    assert ran.summary["engine"]["overruns"] == 0
    assert own["released"]["count"] == own["requests"] == len(READS)


def test_data_that_move_for_longer_than_the_device_takes_are_counted(
    replay: Replay, target: Path
) -> None:
    # GIVEN a device that takes no time, with a target behind it that does
    rows = [record(WRITE, 2048 * n, 2048) for n in range(50)]
    instant = {"engine": "emulated", "emulate": device()}
    ran = replay(rows, target=target, needed_sectors=102_400, **instant, **ONE_BY_ONE)
    # THEN nearly every request's data moved longer than the device takes
    assert ran.summary["engine"]["overruns"] > len(rows) / 2
    assert ran.summary["emulation"]["is_within_budget"] is False


def test_the_command_warns_of_a_late_emulation(tmp_path: Path) -> None:
    folder = trace(tmp_path / "trace", ROWS * 15)
    words = "--engine emulated --device hdd-15k --pace fast --depth 1"
    stop_in_the_run(tmp_path, 0.2)
    done = succeed("replay", folder.path, *words.split())
    assert done.stdout.count("completions were seen") == 2
    assert "warning: the emulation was too late: default: completions were seen" in done.stdout
    assert "chrt -f 10" in done.stdout
    # and so does the page
    (said,) = lateness(json_of(folder.path / "replays" / "latest" / "summary.json"))
    assert said.startswith("Emulated default: completions were seen")
    assert said.endswith("That is beyond the budget: these times are not the device's alone.")
