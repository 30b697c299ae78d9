"""One row a queued I/O: what each event of a request's life does to its row."""

from __future__ import annotations

from tests.decode import scenes
from tests.decode.records import NOTIFY, Event, decode, decode_lines, pack_events, times


def test_plain_request() -> None:
    # GIVEN a write from queue to completion, its process named
    # WHEN it is decoded
    decoded = decode_lines(scenes.PLAIN)

    # THEN every column is filled, times count from the first event
    assert decoded.rows == [
        {
            "request_id": 0,
            "queue_ns": 0,
            "getrq_ns": 10,
            "insert_ns": 20,
            "merge_ns": None,
            "issue_ns": 30,
            "transfer_ns": 90,
            "complete_ns": 90,
            "device": "7,0",
            "sector": 1000,
            "length_bytes": 4096,
            "operation": "write",
            "is_sync": True,
            "is_meta": False,
            "is_fua": False,
            "is_preflush": False,
            "is_readahead": False,
            "process": "dd",
            "pid": 9,
            "cpu": 0,
            "error": 0,
            "merged_into": None,
            "requeue_count": 0,
            "split_count": 0,
            "depth": 1,
            "partition": None,
            "role": "unknown",
        }
    ]
    assert decoded.unmatched() == {}


def test_wall_clock_is_that_of_the_first_event() -> None:
    # GIVEN a clock record 100 ns before the first event
    stats = decode_lines(scenes.PLAIN).stats
    # THEN 100 ns are added to its wall clock
    assert (stats.has_wall, stats.wall_ns) == (1, 1_700_000_000_000_000_105)
    assert (stats.base_ns, stats.last_ns) == (100, 190)


def test_relative_times_have_the_wall_clock_of_the_start() -> None:
    # GIVEN a clock record whose own time is an uptime, before events whose times begin at 0
    stats = decode_lines(
        "5000000000 timestamp sec=1700000000 nsec=5\n0 Q R 0+8\n7 C R 0+8 pid=0"
    ).stats
    # THEN its wall clock is taken as it is, and told from an exact one
    assert (stats.base_ns, stats.last_ns) == (0, 7)
    assert (stats.is_wall_of_start, stats.wall_ns) == (1, 1_700_000_000_000_000_005)


def test_merged_rows_have_their_own_queue_and_the_carriers_end() -> None:
    rows = decode_lines(scenes.BACK_MERGE).rows
    assert [times(row) for row in rows] == [
        [0, 1, 10, None, 20, 100, 100],
        [2, None, None, 3, 20, 100, 100],
        [4, None, None, 5, 20, 100, 100],
    ]
    assert [row["merged_into"] for row in rows] == [None, 0, 0]
    assert [row["depth"] for row in rows] == [1, 2, 3]


def test_front_merge_moves_the_carriers_begin() -> None:
    rows = decode_lines(scenes.FRONT_MERGE).rows
    assert [(row["sector"], row["merged_into"]) for row in rows] == [(1008, None), (1000, 0)]
    assert [row["complete_ns"] for row in rows] == [100, 100]


def test_a_merged_carrier_takes_its_own_along() -> None:
    # GIVEN 1024 merged into 1016, and that into 1000
    rows = decode_lines(scenes.CARRIER_MERGED).rows
    # THEN each names its own carrier, and all end with the outermost
    assert [row["merged_into"] for row in rows] == [None, 0, 1, 0]
    assert [row["issue_ns"] for row in rows] == [20, 20, 20, 20]
    assert [row["complete_ns"] for row in rows] == [100, 100, 100, 100]


def test_partial_completion_ends_what_it_covers_whole() -> None:
    # GIVEN 24 sectors of three I/Os of 8, of which 12 complete first
    rows = decode_lines(scenes.PARTIAL).rows
    # THEN the first is complete with them, the second only with the rest
    assert [row["complete_ns"] for row in rows] == [50, 100, 100]
    assert decode_lines(scenes.PARTIAL).unmatched() == {}


def test_requeue_keeps_the_first_issue() -> None:
    (row,) = decode_lines(scenes.REQUEUE).rows
    assert (row["requeue_count"], row["issue_ns"], row["complete_ns"]) == (2, 10, 100)


def test_split_row_completes_with_its_last_piece() -> None:
    (row,) = decode_lines(scenes.SPLIT).rows
    assert (row["split_count"], row["length_bytes"]) == (2, 24 * 512)
    assert times(row) == [0, 2, None, None, 10, 140, 140]


def test_old_kernels_queue_the_rest_of_a_split_again() -> None:
    # GIVEN a second Q of just what the split left over, by the same process
    decoded = decode_lines(
        """
        100 Q R 1000+16
        101 X R 1000+8 to=1008
        102 Q R 1008+8
        103 G R 1000+8
        104 G R 1008+8
        110 D R 1000+8
        111 D R 1008+8
        200 C R 1000+8
        220 C R 1008+8
        """
    )
    # THEN it is no request of its own
    assert [row["length_bytes"] for row in decoded.rows] == [16 * 512]
    assert decoded.stats.requeued_remainders == 1
    assert decoded.unmatched() == {}


def test_what_is_done_is_not_split() -> None:
    # GIVEN a carrier whose own sectors are done, and a split of what was merged into it
    decoded = decode_lines(
        """
        100 Q W 1000+8
        102 Q W 1008+8 pid=2
        103 M W 1008+8 pid=2
        110 C W 1000+8
        120 X W 1008+8 to=1012
        130 C W 1008+8
        """
    )
    # THEN no row is divided, and the split is one without a partner
    assert decoded.column("split_count") == [0, 0]
    assert decoded.column("complete_ns") == [10, 30]
    assert decoded.unmatched() == {"split": 1}


def test_remap_gives_the_partition() -> None:
    assert decode_lines(scenes.REMAP).column("partition") == ["259,0"]


def test_the_last_remap_of_a_stack_counts() -> None:
    decoded = decode_lines(scenes.REMAP_STACK)
    assert decoded.column("partition") == ["8,1"]
    assert decoded.unmatched() == {}


def test_discard_may_be_longer_than_two_gigabytes() -> None:
    (row,) = decode_lines(scenes.DISCARD).rows
    assert (row["operation"], row["length_bytes"]) == ("discard", 4_294_966_784)
    assert row["complete_ns"] == 100


def test_a_completion_goes_to_the_request_of_its_direction() -> None:
    decoded = decode_lines(scenes.TWO_DIRECTIONS)
    assert decoded.column("operation") == ["write", "read"]
    assert decoded.column("complete_ns") == [100, 50]


def test_error_is_a_negative_errno() -> None:
    assert decode_lines(scenes.FAILED).column("error") == [-5]


def test_devices_without_requests_complete_what_was_queued() -> None:
    decoded = decode_lines(scenes.WITHOUT_REQUESTS)
    assert decoded.column("complete_ns") == [50, 60]
    assert decoded.column("issue_ns") == [None, None]
    assert decoded.devices == [(253, 0)]


def test_a_lost_completion_spoils_one_row_only() -> None:
    # GIVEN the same place written twice, the first completion lost
    decoded = decode_lines(
        """
        100 Q W 1000+8
        110 D W 1000+8
        500 Q W 1000+8
        510 D W 1000+8
        550 C W 1000+8
        """
    )
    # THEN the completion is the second's
    assert decoded.column("complete_ns") == [None, 450]
    assert decoded.unmatched() == {"queue": 1}


def test_a_trace_that_begins_in_the_middle() -> None:
    decoded = decode_lines(scenes.MIDDLE)
    # THEN the issued request stands at its issue, without a queue time
    assert [times(row) for row in decoded.rows] == [
        [None, None, None, None, 1, 50, 50],
        [10, None, None, None, None, 100, 100],
    ]
    # AND what belongs to nothing is counted
    assert decoded.unmatched() == {
        "issue": 1,
        "complete": 1,
        "merge": 1,
        "requeue": 1,
        "split": 1,
        "remap": 1,
    }


def test_other_events_change_no_request() -> None:
    decoded = decode_lines(scenes.OTHERS)
    assert [times(row) for row in decoded.rows] == [[40, None, None, None, None, 50, 50]]
    assert decoded.stats.passthrough == 3
    assert list(decoded.stats.notifies) == [0, 0, 1]
    assert decoded.unmatched() == {}


def test_unknown_actions_are_counted() -> None:
    decoded = decode(pack_events([Event(5, 99), Event(6, 1 | 1 << 17, sector=8, length_bytes=512)]))
    assert (decoded.stats.unknown, len(decoded.rows)) == (1, 1)


def test_depth_counts_by_device() -> None:
    decoded = decode_lines(
        """
        100 Q W 0+8
        101 Q W 8+8 dev=8,0
        102 Q W 16+8
        103 C W 0+8
        104 Q W 24+8
        """
    )
    assert decoded.column("depth") == [1, 1, 2, 2]


def test_a_process_keeps_the_name_it_had_when_it_queued() -> None:
    decoded = decode_lines(
        """
        1 process pid=5 comm=sh
        2 Q R 0+8 pid=5
        3 process pid=5 comm=cp
        4 Q R 8+8 pid=5
        5 Q R 16+8 pid=6
        """
    )
    assert decoded.column("process") == ["sh", "cp", None]


def test_a_name_that_is_no_utf8_stays_readable() -> None:
    decoded = decode(
        pack_events([Event(1, NOTIFY, pid=5, payload=b"a\xff\xc3\xa4b"), Event(2, 1, pid=5)])
    )
    assert decoded.column("process") == ["a?äb"]


def test_an_empty_name_is_no_name() -> None:
    decoded = decode(pack_events([Event(1, NOTIFY, pid=5, payload=bytes(16)), Event(2, 1, pid=5)]))
    assert decoded.column("process") == [None]
