"""Where the answer changes with capacity, and which changes are worth telling."""

import numpy as np

from tracekit.model.answer import Candidate, Flip, follow_answer, lasting
from tracekit.model.placement import Timings


def candidate(placement: str, *elapsed_ps: int) -> Candidate:
    """Make a candidate that uses as much NVM as there is, base none."""
    used = np.arange(len(elapsed_ps)) * (placement != "base")
    return Candidate(placement, Timings(np.array(elapsed_ps)), {placement: used})


def test_a_change_is_dated_from_where_the_new_role_is_ahead() -> None:
    # GIVEN a journal that is ahead of the file system from point 2 on, by 10 from point 4 on
    found = [
        candidate("base", 100, 100, 100, 100, 100),
        candidate("fs", 100, 80, 70, 65, 60),
        candidate("journal", 100, 95, 69, 60, 40),
    ]
    # WHEN changes of 10 and more are worth telling
    placements, flips = follow_answer(found, worth_ps=10)
    # THEN the change is told, from point 2
    assert placements == ["base", "fs", "journal", "journal", "journal"]
    assert flips == [(1, "base", "fs"), (2, "fs", "journal")]


def test_small_leads_are_no_changes() -> None:
    # GIVEN two roles that take turns by 1
    found = [
        candidate("base", 100, 100, 100, 100, 100),
        candidate("fs", 100, 60, 51, 40, 31),
        candidate("journal", 100, 61, 50, 41, 30),
    ]
    # WHEN changes of 10 are worth telling, THEN each point has its answer, without a change told
    placements, flips = follow_answer(found, worth_ps=10)
    assert placements == ["base", "fs", "journal", "fs", "journal"]
    assert flips == [(1, "base", "fs")]


def test_a_split_starts_where_it_is_worth_it_and_stays_while_it_saves() -> None:
    # GIVEN a split that is 5, 12, 3 and 0 ahead of the file system
    found = [
        candidate("base", 100, 100, 100, 100, 100),
        candidate("fs", 100, 80, 70, 60, 50),
        candidate("combined", 100, 75, 58, 57, 50),
    ]
    # WHEN 10 are worth telling, THEN it is not the answer before it saves 10, nor after it saves 0
    placements, flips = follow_answer(found, worth_ps=10)
    assert placements == ["base", "fs", "combined", "combined", "fs"]
    assert flips == [(1, "base", "fs"), (2, "fs", "combined"), (4, "combined", "fs")]


def test_nothing_is_told_when_nothing_pays() -> None:
    found = [candidate("base", 100, 100, 100), candidate("fs", 100, 100, 100)]
    assert follow_answer(found, worth_ps=1) == (["base", "base", "base"], [])


def test_answers_of_a_sliver_of_capacity_are_not_told() -> None:
    # GIVEN a split that one role passes for 3 % more capacity, and a last change far from others
    changes = [
        (0, "base", "fs"),
        (1, "fs", "combined"),
        (2, "combined", "journal"),
        (3, "journal", "combined"),
        (4, "combined", "journal"),
    ]
    capacities = [4_096, 100_000, 1_000_000, 1_030_000, 9_000_000]
    # WHEN they are told, THEN the split goes on through the sliver
    assert lasting(changes, capacities) == [
        Flip(4_096, "base", "fs"),
        Flip(100_000, "fs", "combined"),
        Flip(9_000_000, "combined", "journal"),
    ]
