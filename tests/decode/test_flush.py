"""Flushes: empty ones, and writes that the kernel puts between two of its own."""

from __future__ import annotations

from tests.decode import scenes
from tests.decode.records import decode_lines, times


def test_empty_flush_is_issued_with_the_device_flush() -> None:
    (row,) = decode_lines(scenes.EMPTY_FLUSH).rows
    assert (row["operation"], row["length_bytes"], row["is_preflush"]) == ("flush", 0, True)
    assert times(row) == [0, 1, None, None, 10, None, 90]


def test_one_device_flush_serves_all_that_wait() -> None:
    decoded = decode_lines(scenes.TWO_FLUSHES)
    assert decoded.column("issue_ns") == [10, 90, 90]
    assert decoded.column("complete_ns") == [81, 181, 182]
    assert decoded.stats.device_flushes == 2


def test_a_device_flush_does_not_serve_what_has_no_request_yet() -> None:
    # GIVEN a flush queued before another's device flush, but allocated after it
    decoded = decode_lines(
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
        """
    )
    assert decoded.column("issue_ns") == [3, 90]
    assert decoded.column("complete_ns") == [81, 181]


def test_a_lost_flush_completion_spoils_one_row_only() -> None:
    # GIVEN a flush whose completion was lost, and another a second later
    decoded = decode_lines(
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
        """
    )
    # THEN the second has its own completion
    assert decoded.column("complete_ns") == [None, 999_999_990]
    assert decoded.unmatched() == {"queue": 1}


def test_forced_write_is_transferred_before_it_is_complete() -> None:
    (row,) = decode_lines(scenes.FLUSHED_WRITE).rows
    assert (row["is_preflush"], row["is_fua"], row["is_meta"]) == (True, True, True)
    assert (row["issue_ns"], row["transfer_ns"], row["complete_ns"]) == (52, 70, 141)


def test_forced_write_whose_trace_ends_early_is_complete_by_its_data() -> None:
    cut = "\n".join(scenes.FLUSHED_WRITE.strip().splitlines()[:-1])
    decoded = decode_lines(cut)
    assert decoded.column("complete_ns") == [70]
    assert decoded.unmatched() == {}


def test_error_of_a_flush_is_a_negative_errno() -> None:
    # GIVEN an empty flush that fails, by a tracer that stores the error without its sign
    decoded = decode_lines(
        """
        100 Q FWS 0+0
        101 G FWS 0+0
        102 D FN 0+0
        103 C FN 0+0
        104 C WS 0+0 error=5
        """
    )
    # THEN it is stored as for any other request
    assert decoded.column("error") == [-5]
