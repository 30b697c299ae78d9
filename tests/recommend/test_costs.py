"""What requests cost on two devices, worked out by hand; see devices.toml."""

from pathlib import Path

from tests.recommend.traces import US, curve, recommended
from tests.simulate.placement_traces import Request


def test_a_request_over_two_devices_costs_both(tmp_path: Path) -> None:
    # GIVEN a write of two blocks, WHEN none, one or both of them are on NVM
    recommended(tmp_path, [Request("fs", 0, 16)])
    # THEN each device that holds a block costs its latency once and its own transfer
    assert curve(tmp_path, "fs") == {0: 4000 + 2000, 1: 4000 + 1000 + 5 + 10, 2: 5 + 20}


def test_reads_and_writes_have_their_own_costs(tmp_path: Path) -> None:
    recommended(tmp_path, [Request("fs", 0, operation="read"), Request("fs", 80)])
    assert curve(tmp_path, "fs", "start") == {0: 3000 + 5000, 1: 12 + 5000, 2: 12 + 15}


def test_a_continued_request_costs_its_transfer_while_both_are_on_the_disk(tmp_path: Path) -> None:
    # GIVEN two writes one after the other
    recommended(tmp_path, [Request("fs", 0), Request("fs", 8)])
    # WHEN the first moves to NVM, THEN the disk must seek for the second
    assert curve(tmp_path, "fs") == {0: 5000 + 1000, 1: 15 + 5000, 2: 15 + 15}


def test_a_flush_goes_to_both_devices_until_the_role_is_wholly_on_nvm(tmp_path: Path) -> None:
    # GIVEN two writes and a flush of the file system, and one of the journal that has no block
    flushes = [Request("fs", 0, 0, "flush"), Request("journal", 0, 0, "flush")]
    recommended(tmp_path, [Request("fs", 0), *flushes, Request("fs", 80)])
    # THEN the slower flush counts until both blocks are on NVM; the journal's never moves
    assert curve(tmp_path, "fs") == {
        0: 5000 + 5000 + 7000 + 7000,
        1: 15 + 5000 + 7000 + 7000,
        2: 15 + 15 + 3 + 7000,
    }


def test_a_forced_unit_access_with_preflush_costs_both(tmp_path: Path) -> None:
    recommended(tmp_path, [Request("journal", 0, is_fua=True, is_preflush=True)])
    assert curve(tmp_path, "journal") == {0: 5000 + 500 + 7000, 1: 15 + 1 + 3}


def test_other_roles_are_placed_only_by_the_optimum(tmp_path: Path) -> None:
    # GIVEN requests of which none has a role that can be placed
    result = recommended(tmp_path, [Request("other", 0), Request("unknown", 80)])
    # THEN no placement is proposed, while the optimum takes them
    assert result["answer"]["placement"] == "base"
    assert curve(tmp_path, "optimal") == {0: 10000, 1: 5015, 2: 30}
    assert any("2 requests of no placeable role" in text for text in result["assumptions"])
    # AND the headline says how much of the time that is, and what to do about it
    assert result["headline"][0].endswith(
        "50% of the time is of requests without a role: set it with tracekit classify --role."
    )


def test_discards_are_counted_and_cost_nothing(tmp_path: Path) -> None:
    result = recommended(tmp_path, [Request("fs", 0), Request("fs", 8, 1 << 24, "discard")])
    assert result["left_out"]["uncharged"] == 1
    assert result["answer"]["base_elapsed_ns"] == 5000 * US


def test_a_trace_without_issue_times_is_charged_as_queued(tmp_path: Path) -> None:
    result = recommended(tmp_path, [Request("fs", 0)], level="issued")
    assert result["level"] == "queued"
    assert (
        "the trace has no issue times, so requests are charged as queued" in (result["assumptions"])
    )


def test_a_block_of_two_roles_moves_with_one_of_them(tmp_path: Path) -> None:
    # GIVEN a block that the file system touched first, and the journal after it
    requests = [Request("fs", 0), Request("journal", 4, 12)]
    result = recommended(tmp_path, requests, info={"hotness": {"mixed_role_blocks": 1}})
    # WHEN the journal is wholly on NVM, THEN the shared half of its request stays on the disk
    shared_us, own_us = 4000 + 500, 5 + 10
    assert curve(tmp_path, "journal")[2] == 5000 + shared_us + own_us
    # AND in the optimum both are on NVM
    assert curve(tmp_path, "optimal")[2] == 15 + 5 + 5 + 10
    assert result["assumptions"][-1].startswith("blocks touched by requests of several roles: 1;")
