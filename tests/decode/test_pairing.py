"""One row a queued I/O: what each event of a request's life does to its row."""

from typing import Any

import pytest

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
            "cgroup": None,
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


# By name: the events, and columns of the rows that they become; `times` are all times of a row.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "merged rows have their own queue and the end of their target": (
        scenes.BACK_MERGE,
        {
            "times": [
                [0, 1, 10, None, 20, 100, 100],
                [2, None, None, 3, 20, 100, 100],
                [4, None, None, 5, 20, 100, 100],
            ],
            "merged_into": [None, 0, 0],
            "depth": [1, 2, 3],
        },
    ),
    "a front merge moves the begin of its target": (
        scenes.FRONT_MERGE,
        {"sector": [1008, 1000], "merged_into": [None, 0], "complete_ns": [100, 100]},
    ),
    # 1024 is merged into 1016, and that into 1000: each names its own target.
    "a merged target takes its own along": (
        scenes.CARRIER_MERGED,
        {"merged_into": [None, 0, 1, 0], "issue_ns": [20] * 4, "complete_ns": [100] * 4},
    ),
    # Of 24 sectors of three I/Os of 8, 12 complete first.
    "a partial completion ends what it covers whole": (
        scenes.PARTIAL,
        {"complete_ns": [50, 100, 100]},
    ),
    "a requeue keeps the first issue": (
        scenes.REQUEUE,
        {"requeue_count": [2], "issue_ns": [10], "complete_ns": [100]},
    ),
    "a split row completes with its last piece": (
        scenes.SPLIT,
        {"split_count": [2], "length_bytes": [12288], "times": [[0, 2, None, None, 10, 140, 140]]},
    ),
    "a remap gives the partition": (scenes.REMAP, {"partition": ["259,0"]}),
    "the last remap of a stack counts": (scenes.REMAP_STACK, {"partition": ["8,1"]}),
    "a discard may be longer than two gigabytes": (
        scenes.DISCARD,
        {"operation": ["discard"], "length_bytes": [4_294_966_784], "complete_ns": [100]},
    ),
    "a completion goes to the request of its direction": (
        scenes.TWO_DIRECTIONS,
        {"operation": ["write", "read"], "complete_ns": [100, 50]},
    ),
    "an error is a negative errno": (scenes.FAILED, {"error": [-5]}),
    "devices without requests complete what was queued": (
        scenes.WITHOUT_REQUESTS,
        {"complete_ns": [50, 60], "issue_ns": [None, None], "device": ["253,0", "253,0"]},
    ),
    "an empty flush is issued with the device flush": (
        scenes.EMPTY_FLUSH,
        {
            "operation": ["flush"],
            "length_bytes": [0],
            "is_preflush": [True],
            "times": [[0, 1, None, None, 10, None, 90]],
        },
    ),
    "one device flush serves all that wait": (
        scenes.TWO_FLUSHES,
        {"issue_ns": [10, 90, 90], "complete_ns": [81, 181, 182]},
    ),
    # A flush queued before another's device flush, but allocated after it.
    "a device flush does not serve what has no request yet": (
        """
        100 Q FWS pid=1
        101 G FWS pid=1
        102 Q FWS pid=2
        103 D FN
        104 G FWS pid=2
        180 C FN
        181 C WS
        190 D FN
        280 C FN
        281 C WS
        """,
        {"issue_ns": [3, 90], "complete_ns": [81, 181]},
    ),
    # A flush whose completion was lost, and another a second later, which has its own.
    "a lost flush completion spoils one row only": (
        """
        100 Q FWS
        101 G FWS
        110 D FN
        180 C FN
        1000000000 Q FWS
        1000000001 G FWS
        1000000010 D FN
        1000000080 C FN
        1000000090 C WS
        """,
        {"complete_ns": [None, 999_999_990], "unmatched": {"queue": 1}},
    ),
    "a forced write is transferred before it is complete": (
        scenes.FLUSHED_WRITE,
        {
            "is_preflush": [True],
            "is_fua": [True],
            "is_meta": [True],
            "issue_ns": [52],
            "transfer_ns": [70],
            "complete_ns": [141],
        },
    ),
    "a forced write whose trace ends early is complete by its data": (
        "\n".join(scenes.FLUSHED_WRITE.strip().splitlines()[:-1]),
        {"complete_ns": [70]},
    ),
    # An empty flush that fails, by a tracer that stores the error without its sign.
    "an error of a flush is a negative errno": (
        """
        100 Q FWS 0+0
        101 G FWS 0+0
        102 D FN 0+0
        103 C FN 0+0
        104 C WS 0+0 error=5
        """,
        {"error": [-5]},
    ),
    # The same place written twice, the first completion lost.
    "a lost completion spoils one row only": (
        """
        100 Q W 1000+8
        110 D W 1000+8
        500 Q W 1000+8
        510 D W 1000+8
        550 C W 1000+8
        """,
        {"complete_ns": [None, 450], "unmatched": {"queue": 1}},
    ),
    # The own sectors of a target are done before what was merged into it is split.
    "what is done is not split": (
        """
        100 Q W 1000+8
        102 Q W 1008+8 pid=2
        103 M W 1008+8 pid=2
        110 C W 1000+8
        120 X W 1008+8 to=1012
        130 C W 1008+8
        """,
        {"split_count": [0, 0], "complete_ns": [10, 30], "unmatched": {"split": 1}},
    ),
    # The issued request stands at its issue, without a queue time.
    "a trace that begins in the middle": (
        scenes.MIDDLE,
        {
            "times": [
                [None, None, None, None, 1, 50, 50],
                [10, None, None, None, None, 100, 100],
            ],
            "unmatched": dict.fromkeys(
                ("issue", "complete", "merge", "requeue", "split", "remap"), 1
            ),
        },
    ),
    "depth counts by device": (
        """
        100 Q W 0+8
        101 Q W 8+8 dev=8,0
        102 Q W 16+8
        103 C W 0+8
        104 Q W 24+8
        """,
        {"depth": [1, 1, 2, 2], "unmatched": {"queue": 3}},
    ),
    "a process keeps the name it had when it queued": (
        """
        1 process pid=5 comm=sh
        2 Q R 0+8 pid=5
        3 process pid=5 comm=cp
        4 Q R 8+8 pid=5
        5 Q R 16+8 pid=6
        """,
        {"process": ["sh", "cp", None], "unmatched": {"queue": 3}},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_becomes_of_events(name: str) -> None:
    text, expected = CASES[name]
    decoded = decode_lines(text)
    found = {"unmatched": decoded.unmatched(), "times": [times(row) for row in decoded.rows]}
    found |= {column: decoded.column(column) for column in expected.keys() - found.keys()}
    expected = {"unmatched": {}, **expected}
    assert {column: found[column] for column in expected} == expected


def test_device_flushes_are_counted() -> None:
    assert decode_lines(scenes.TWO_FLUSHES).stats.device_flushes == 2


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


def test_other_events_change_no_request() -> None:
    decoded = decode_lines(scenes.OTHERS)
    assert [times(row) for row in decoded.rows] == [[40, None, None, None, None, 50, 50]]
    assert decoded.stats.passthrough == 3
    assert list(decoded.stats.notifies) == [0, 0, 1]
    assert decoded.unmatched() == {}


def test_unknown_actions_are_counted() -> None:
    decoded = decode(pack_events([Event(5, 99), Event(6, 1 | 1 << 17, sector=8, length_bytes=512)]))
    assert (decoded.stats.unknown, len(decoded.rows)) == (1, 1)


def test_a_name_that_is_no_utf8_stays_readable() -> None:
    decoded = decode(
        pack_events([Event(1, NOTIFY, pid=5, payload=b"a\xff\xc3\xa4b"), Event(2, 1, pid=5)])
    )
    assert decoded.column("process") == ["a?äb"]


def test_an_empty_name_is_no_name() -> None:
    decoded = decode(pack_events([Event(1, NOTIFY, pid=5, payload=bytes(16)), Event(2, 1, pid=5)]))
    assert decoded.column("process") == [None]


@pytest.mark.parametrize("first", ["D", "C"])
def test_events_of_one_time_on_two_cpus_are_in_the_order_of_a_request(first: str) -> None:
    # GIVEN a clock so coarse that a request ends at the time at which it was queued and issued, the
    # events on two CPUs, of which either is read first
    begin = "5 Q W 0+8 pid=9\n5 G W 0+8 pid=9\n5 I W 0+8 pid=9\n5 D W 0+8 pid=9"
    end = "5 C W 0+8 pid=0 cpu=1\n5 Q W 64+8 pid=7 cpu=1\n9 C W 64+8 pid=0 cpu=1"
    # WHEN they are decoded
    decoded = decode_lines(*([begin, end] if first == "D" else [end, begin]))
    # THEN each request has its completion
    assert decoded.column("sector") == [0, 64]
    assert decoded.column("complete_ns") == [0, 4]
    assert decoded.unmatched() == {}
