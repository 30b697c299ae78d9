"""What the table of targets says about a plan's records."""

from pathlib import Path

import numpy as np
import pytest

from tracekit._native.workload import tally
from tracekit.errors import TracekitError
from tracekit.plans import block_plan

TARGETS = 3


def random_records(count: int) -> block_plan.Records:
    random = np.random.default_rng(3)
    records = np.zeros(count, block_plan.RECORD)
    records["sector"] = random.integers(0, 1 << 40, count) * 8
    records["length_sectors"] = random.integers(1, 1 << 17, count)
    records["operation"] = random.integers(0, len(block_plan.OPERATIONS), count)
    records["target"] = random.integers(0, TARGETS, count)
    records["intended_ns"] = np.arange(count) * 7
    return records


def test_sums_are_those_of_every_record_alone() -> None:
    records = random_records(5000)
    totals = block_plan.Totals(np.zeros(TARGETS, block_plan.TARGET))
    # WHEN they come in three parts
    for part in np.split(records, [1, 3000]):
        totals.add(part)
    counts, lengths = np.zeros((TARGETS, 5), int), np.zeros((TARGETS, 5), int)
    bits, longest = [0] * TARGETS, 0
    for row in records:
        where = int(row["target"]), int(row["operation"])
        counts[where] += 1
        lengths[where] += 512 * int(row["length_sectors"])
        if where[1] != block_plan.FLUSH:
            bits[where[0]] |= int(row["sector"]) | int(row["length_sectors"])
        if where[1] in (block_plan.READ, block_plan.WRITE):
            longest = max(longest, 512 * int(row["length_sectors"]))
    assert totals.targets["counts"].tolist() == counts.tolist()
    assert totals.targets["bytes"].tolist() == lengths.tolist()
    assert totals.targets["address_bits"].tolist() == bits
    assert (totals.max_transfer_bytes, totals.duration_ns) == (longest, 4999 * 7)
    assert list(totals.operations.values()) == counts.sum(axis=0).tolist()


@pytest.mark.parametrize(("key", "value"), [("target", TARGETS), ("operation", 5)])
def test_what_is_beyond_the_table_is_refused(key: str, value: int) -> None:
    records, targets = random_records(9), np.zeros(TARGETS, block_plan.TARGET)
    records[4][key] = value
    with pytest.raises(TracekitError, match="cannot be counted"):
        tally(records, targets, most_sectors=0)
    # THEN nothing beyond it was written
    assert targets["counts"].sum() == 4


def test_a_plan_in_place_of_a_longer_one_has_nothing_of_it(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    path.write_bytes(b"x" * 100_000)
    with block_plan.open_new(path) as out:
        out.write(b"new")
    assert path.read_bytes() == b"new"
