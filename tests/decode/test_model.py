"""The decoder against a model of the block layer, and against streams without any sense."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decode.block_layer import Disk, Machine, lines_of, run
from tests.decode.records import Event, decode, flags, pack, pack_events
from tracekit._native.decode import ACTIONS


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 1 << 32),
    steps=st.integers(0, 250),
    disks=st.integers(1, 3),
    cpus=st.integers(1, 4),
    version=st.sampled_from([7, 8]),
)
def test_rows_are_what_the_block_layer_did(
    seed: int, steps: int, disks: int, cpus: int, version: int
) -> None:
    # GIVEN the trace of a model that knows what it did
    machine = run(seed, steps=steps, disks=disks, cpus=cpus)
    files = [pack("\n".join(lines), version=version) for lines in machine.lines]
    if not files:
        return

    # WHEN it is decoded
    decoded = decode(*files)

    # THEN each row says what became of its I/O, and nothing is left over
    keys = list(machine.bios[0].row)
    assert [{key: row[key] for key in keys} for row in decoded.rows] == [
        bio.row for bio in machine.bios
    ]
    assert decoded.unmatched() == {}

    # AND one stream of all CPUs is the same as a file for each
    assert decode(pack("\n".join(lines_of(machine)), version=version)).rows == decoded.rows


def test_the_model_does_all_that_is_to_be_tested() -> None:
    # GIVEN one long run
    machine = run(1, steps=3000, disks=2, cpus=2)
    rows = [bio.row for bio in machine.bios]
    actions = {line.split()[1] for lines in machine.lines for line in lines}
    # THEN nothing of the model lies idle
    assert actions == {"A", "Q", "X", "G", "M", "F", "I", "D", "R", "C"}
    assert sum(row["merged_into"] is not None for row in rows) > 50
    assert sum(row["split_count"] > 1 for row in rows) > 10
    assert sum(row["requeue_count"] > 0 for row in rows) > 10
    assert sum(row["length_bytes"] == 0 for row in rows) > 10
    assert sum(row["transfer_ns"] != row["complete_ns"] for row in rows) > 10
    assert {row["device"] for row in rows} == {"7,0", "7,1"}


def test_model_disks_are_independent() -> None:
    machine = Machine(random.Random(3), 1)  # noqa: S311
    disk = Disk(machine, 5)
    disk.queue()
    assert machine.bios[0].row["device"] == "7,5"


EVENTS = st.builds(
    lambda action, rwbs, sector, sectors, pid, error: Event(
        time_ns=0,
        action=ACTIONS.index(action) | flags(rwbs),
        sector=sector,
        length_bytes=sectors * 512,
        pid=pid,
        error=error,
        payload=(sector + 1).to_bytes(8, "big") * 2 if action in "AX" else b"",
    ),
    st.sampled_from("QQQMFGRDDCCIXA"),
    st.sampled_from(["W", "R", "FWS", "FN", "D"]),
    st.integers(0, 12),
    st.integers(0, 6),
    st.integers(1, 3),
    st.sampled_from([0, 0, -5]),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=120))
def test_streams_without_sense_are_counted(events: list[Event]) -> None:
    # GIVEN events in any order, as after heavy loss
    timed = [Event(**{**vars(one), "time_ns": place}) for place, one in enumerate(events)]

    # WHEN they are decoded
    decoded = decode(pack_events(timed))

    # THEN every Q is a row or the rest of a split, and every other row was counted as unmatched
    counts, unmatched = decoded.stats, decoded.unmatched()
    queued = counts.actions[ACTIONS.index("Q")] - counts.requeued_remainders
    assert sum(row["queue_ns"] is not None for row in decoded.rows) == queued
    assert sum(row["queue_ns"] is None for row in decoded.rows) <= sum(
        unmatched.get(name, 0) for name in ("getrq", "insert", "issue")
    )
    # AND queue events that never complete are counted, no more and no less
    open_rows = [
        row for row in decoded.rows if row["queue_ns"] is not None and row["complete_ns"] is None
    ]
    assert unmatched.get("queue", 0) == len(open_rows)
    # AND the order of a request's times is kept
    for row in decoded.rows:
        later = [row[f"{name}_ns"] for name in ("queue", "issue", "transfer", "complete")]
        known = [time for time in later if time is not None]
        assert known == sorted(known)
