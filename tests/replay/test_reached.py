"""How far a killed program came: against a plain loop over the plan."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.replay.program import READ, record, write_plan
from tracekit.errors import InputError
from tracekit.plans import block_plan
from tracekit.replay import completions, partial_results
from tracekit.replay.partial_results import first_without_completion


def write_plan_of(path: Path, ids: list[int]) -> Path:
    """Write a plan of one request each 10 ns, with these ids."""
    write_plan(path, [record(READ, 0, 8, at_ns=10 * n) for n in range(len(ids))])
    header = np.fromfile(path, block_plan.HEADER, 1)[0]
    rows = np.memmap(
        path, block_plan.RECORD, "r+", offset=int(header["records_offset"]), shape=(len(ids),)
    )
    rows["request_id"] = ids
    rows.flush()
    return path


def write_records(path: Path, ids: list[int], *, more: bytes = b"") -> Path:
    """Write what the program leaves when it is killed."""
    header = np.zeros(1, completions.HEADER)
    header["magic"], header["record_bytes"] = completions.MAGIC, completions.RECORD.itemsize
    rows = np.zeros(len(ids), completions.RECORD)
    rows["request_id"] = ids
    path.write_bytes(header.tobytes() + rows.tobytes() + more)
    return path


def expected(planned: list[int], ended: list[int], begin: int) -> int:
    left = Counter(ended)
    for number in range(begin, len(planned)):
        if not left[planned[number]]:
            return number
        left[planned[number]] -= 1
    return len(planned)


@pytest.mark.parametrize("seed", range(40))
def test_the_first_request_that_was_not_completed(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a plan whose requests may have several pieces, and completions in a mixed order
    chance = np.random.default_rng(seed)
    planned = np.repeat(chance.permutation(300), chance.integers(1, 4, 300)).tolist()
    begin = int(chance.integers(0, 100))
    places = np.arange(begin, len(planned))
    mixed = places[np.argsort(places + chance.integers(0, 50, len(places)))]
    ended = [planned[place] for place in mixed[: chance.integers(0, len(places) + 1)]]
    plan = write_plan_of(tmp_path / "plan", planned)
    records = write_records(tmp_path / "records", ended, more=b"cut off")
    # WHEN they are read a few at a time
    monkeypatch.setattr(completions, "CHUNK_RECORDS", int(chance.integers(1, 40)))
    found = first_without_completion(plan, records, begin=begin)
    # THEN it is the one that a plain loop finds
    assert found == expected(planned, ended, begin)
    # AND the same from its time on
    assert first_without_completion(plan, records, begin=0, from_ns=10 * begin) == found


def test_a_request_that_never_ended_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partial_results, "MOST_AHEAD", 100)
    monkeypatch.setattr(completions, "CHUNK_RECORDS", 10)
    plan = write_plan_of(tmp_path / "plan", list(range(1000)))
    records = write_records(tmp_path / "records", [0, *range(2, 500)])
    assert first_without_completion(plan, records, begin=0) == 1


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    plan = write_plan_of(tmp_path / "plan", [0])
    (tmp_path / "records").write_bytes(bytes(200))
    with pytest.raises(InputError, match="no file of completions"):
        first_without_completion(plan, tmp_path / "records", begin=0)
