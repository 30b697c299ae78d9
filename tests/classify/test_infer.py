"""Each rule at its edges: what is just enough evidence, and what lacks one thing."""

from dataclasses import replace

import pytest

from tracekit.classify.infer import Evidence, decide, decide_beside_journal

JOURNAL = Evidence(
    reads=5,
    writes=100,
    meta=100,
    barriers=1,
    pages=105,
    sequential=80,
    named=105,
    jbd2_writes=90,
    jbd2_barriers=1,
)
SWAP = Evidence(reads=300, writes=320, pages=620, named=620, swapper_writes=16)
SHAPE = replace(JOURNAL, meta=0, named=0, jbd2_writes=0, jbd2_barriers=0)


def role(evidence: Evidence) -> tuple[str, str]:
    decision = decide(evidence)
    return decision.role, decision.confidence


def test_just_enough() -> None:
    assert role(JOURNAL) == ("journal", "high")
    assert role(SWAP) == ("swap", "high")
    assert role(SHAPE) == ("journal", "medium")


@pytest.mark.parametrize(
    "lacking",
    [
        replace(JOURNAL, jbd2_writes=89),
        replace(JOURNAL, sequential=79),
        replace(JOURNAL, reads=6),
        replace(JOURNAL, barriers=0),
    ],
)
def test_what_lacks_one_sign_of_a_journal_is_the_file_system(lacking: Evidence) -> None:
    assert role(lacking) == ("fs", "high")


@pytest.mark.parametrize(
    ("lacking", "expected"),
    [
        (replace(SWAP, pages=619), "unknown"),
        (replace(SWAP, swapper_writes=15), "unknown"),
        (replace(SWAP, meta=1), "fs"),
        (replace(SWAP, barriers=1), "fs"),
        (replace(SWAP, jbd2_writes=1), "fs"),
    ],
)
def test_what_lacks_one_sign_of_swap_is_not_swap(lacking: Evidence, expected: str) -> None:
    assert role(lacking)[0] == expected


@pytest.mark.parametrize(
    ("lacking", "expected"),
    [
        (replace(SHAPE, named=1), "fs"),
        (replace(SHAPE, writes=15, sequential=15, reads=0), "fs"),
        (replace(SHAPE, sequential=79), "fs"),
        (replace(SHAPE, reads=6), "fs"),
        (replace(SHAPE, barriers=0), "unknown"),
    ],
)
def test_what_lacks_one_sign_of_a_log_is_none(lacking: Evidence, expected: str) -> None:
    assert role(lacking)[0] == expected


def test_few_requests_make_it_less_sure() -> None:
    few = replace(JOURNAL, reads=0, writes=15, sequential=15, jbd2_writes=15)
    assert role(few) == ("journal", "medium")
    assert role(replace(SWAP, writes=15, swapper_writes=15, pages=315)) == ("swap", "medium")


def test_confidence_in_a_file_system() -> None:
    assert role(Evidence(reads=9, meta=1)) == ("fs", "medium")
    assert role(Evidence(writes=9, barriers=1)) == ("fs", "low")
    assert role(Evidence(writes=9, meta=1, journaler_writes=1)) == ("fs", "high")


def test_beside_an_external_journal_synchronous_writes_are_a_file_systems() -> None:
    assert decide_beside_journal(Evidence(writes=9, synchronous=1)).role == "fs"
    assert decide_beside_journal(Evidence(writes=9)).role == "unknown"
