"""Texts of events give the rows that the binary records of the same events give."""

import contextlib
import os
import random
import threading
import time
from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decode.block_layer import lines_of, run
from tests.decode.printed import FORM, blkparse_line, form_line, kernel_line
from tests.decode.records import Decoded, decode, memory_file, pack
from tracekit._native.decode import Decoder, Text, detect_text

HEAD_BYTES = 1 << 16


def decode_text(data: bytes, kind: Text | None = None, *, form: str | None = None) -> Decoded:
    """Run the decoder over a text, of the kind that it is found to be."""
    with ExitStack() as stack:
        fd = memory_file(data)
        stack.callback(os.close, fd)
        decoder = stack.enter_context(Decoder([fd]))
        head = os.read(fd, HEAD_BYTES)
        decoder.set_text(detect_text(head) if kind is None else kind, head, form=form)
        rows = [row for batch in decoder.batches() for row in batch.to_pylist()]
        return Decoded(rows, decoder.stats(), decoder.devices())


def model_lines(seed: int) -> list[str]:
    """Return what the model of the block layer traced, in order of time."""
    return lines_of(run(seed, steps=150, disks=2, cpus=2))


def renamed(decoded: Decoded) -> list[dict[str, object]]:
    return [{**row, "process": None} for row in decoded.rows]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_any_events_printed_by_blkparse(seed: int) -> None:
    # GIVEN events of a model of the block layer, as records and as blkparse's lines
    lines = model_lines(seed)
    text = "".join(blkparse_line(line, number + 1) for number, line in enumerate(lines))
    # WHEN both are decoded THEN all columns and counts of events are the same
    if lines:
        binary, printed = decode(pack("\n".join(lines))), decode_text(text.encode())
        assert printed.rows == renamed(binary)
        assert list(printed.stats.actions) == list(binary.stats.actions)
        assert printed.unmatched() == binary.unmatched()
        assert printed.stats.bad_lines == 0


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1 << 32),
    is_perf=st.booleans(),
    priority=st.sampled_from(["", " none,0,0", " 0x2,0,4"]),
)
def test_any_events_printed_by_the_kernel(seed: int, is_perf: bool, priority: str) -> None:
    # GIVEN the same as block:* events of an old or a new kernel, to perf or to ftrace
    lines = model_lines(seed)
    text = "".join(kernel_line(line, is_perf=is_perf, priority=priority) for line in lines)
    # WHEN both are decoded THEN all columns are the same
    if lines:
        binary, printed = decode(pack("\n".join(lines))), decode_text(text.encode())
        assert printed.rows == renamed(binary)
        assert printed.unmatched() == binary.unmatched()
        assert bool(printed.stats.is_perf) == is_perf


def test_a_format_of_the_users_own() -> None:
    # GIVEN events without splits, of which the format says all but where a remap comes from
    seeds = (seed for seed in range(100) if not any(" X " in one for one in model_lines(seed)))
    lines = model_lines(next(seeds))
    assert {line.split()[1] for line in lines} > {"Q", "G", "D", "C"}
    # WHEN they are printed in a format and read back
    printed = decode_text("".join(map(form_line, lines)).encode(), Text.FORM, form=FORM)
    # THEN all is there but the partitions, and the process has its name, with a blank
    binary = decode(pack("\n".join(lines)))
    kept = [{**row, "partition": None, "process": "a b"} for row in binary.rows]
    assert printed.rows == kept
    assert list(printed.stats.actions) == list(binary.stats.actions)
    assert printed.unmatched() == {}


@pytest.mark.parametrize(
    ("form", "message"),
    [("%T %a %d %S", "lacks"), ("%T %a %d %S %n %k", "does not know"), ("%", "does not know")],
)
def test_a_format_that_cannot_be_read_is_rejected(form: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode_text(b"x\n", Text.FORM, form=form)


@pytest.mark.parametrize(
    ("end", "error"),
    [("(    1234) [0]", 0), ("[65531]", -5), ("[-5]", -5)],
    ids=["elapsed time", "error of blkparse", "error of the kernel"],
)
def test_forms_of_a_completion(end: str, error: int) -> None:
    text = (
        "  8,16   1        1     0.000000001     7  Q   W 8 + 8 [dd]\n"
        f"  8,16   1        2     0.000000101     0  C   W 8 + 8 {end}\n"
    )
    row = decode_text(text.encode()).rows[0]
    assert (row["sector"], row["error"], row["device"], row["process"]) == (8, error, "8,16", "dd")
    assert (row["queue_ns"], row["complete_ns"]) == (0, 100)


def test_commands_of_the_device_have_no_row() -> None:
    text = (
        "  8,0    1        1     0.000000001     7  D   R 36 (12 00 00 00 24 00) [smartctl]\n"
        "  8,0    1        2     0.000000002     0  C   R (12 00 00 00 24 00) [0]\n"
        "  8,0    1        3     0.000000003     7  Q   R 8 + 8 [dd]\n"
    )
    decoded = decode_text(text.encode())
    assert decoded.stats.passthrough == 2
    assert len(decoded.rows) == 1
    assert decoded.stats.bad_lines == 0


def test_letters_of_all_operations() -> None:
    # GIVEN one bio of each operation that a kernel prints, FWS and FWFSM of a full length, too
    expected = {
        "R": "read", "RA": "read", "RSM": "read", "W": "write", "WFS": "write", "FWFSM": "write",
        "D": "discard", "DE": "discard", "N": "write", "ZR": "zone_reset",
        "ZRA": "zone_reset_all", "ZO": "zone_open", "ZC": "zone_close", "ZF": "zone_finish",
        "ZA": "zone_append", "WSa": "write",
    }  # fmt: skip
    text = "".join(
        f"dd 1 [000] 1.{place:06}: block:block_bio_queue: 8,0 {rwbs} {place * 8} + 8 [dd]\n"
        for place, rwbs in enumerate(expected)
    )
    # WHEN they are read THEN each is what it is
    decoded = decode_text(text.encode())
    assert decoded.column("operation") == list(expected.values())
    assert decoded.column("is_fua") == ["F" in rwbs[1:] and rwbs[0] != "Z" for rwbs in expected]
    assert decoded.column("is_preflush") == [rwbs[0] == "F" for rwbs in expected]
    assert decoded.column("is_readahead") == [rwbs == "RA" for rwbs in expected]


def test_losses_that_a_text_reports() -> None:
    text = (
        "# tracer: nop\n#\n# entries-in-buffer/entries-written: 2/9   #P:4\n"
        "CPU:1 [LOST 4 EVENTS]\n"
        "  dd-7  [000] d..1  1.000001: block_bio_queue: 8,0 R 8 + 8 [dd]\n"
        "  dd-7  [000] d..1  1.000002: block_plug: [dd]\n"
        "  dd-7  [000] d..1  1.000003: sched_switch: prev_comm=dd\n"
    )
    decoded = decode_text(text.encode())
    assert decoded.stats.told_lost == 7 + 4
    assert (decoded.stats.lines, decoded.stats.passed_lines, decoded.stats.bad_lines) == (7, 6, 0)


def test_a_text_in_small_reads() -> None:
    # GIVEN a text that comes through a pipe in pieces that end within lines
    lines = model_lines(5)
    text = "".join(blkparse_line(line, number + 1) for number, line in enumerate(lines)).encode()
    whole = decode_text(text)
    chance = random.Random(5)  # noqa: S311
    read_fd, write_fd = os.pipe()
    if os.fork() == 0:
        at = 0
        while at < len(text):
            at += os.write(write_fd, text[at : at + chance.randint(1, 200)])
        os._exit(0)
    os.close(write_fd)
    # WHEN it is decoded THEN nothing differs
    with Decoder([read_fd]) as decoder:
        decoder.set_text(Text.BLKPARSE, b"")
        rows = [row for batch in decoder.batches() for row in batch.to_pylist()]
    os.close(read_fd)
    os.wait()
    assert rows == whole.rows


def events_of(requests: int) -> list[str]:
    """Return queue, issue and completion of requests, in order of time."""
    return [
        f"8,0 1 {3 * number + at + 1} {number}.{at:09} 42 {action} R {8 * number} + 8 [{name}]"
        for number in range(requests)
        for at, (action, name) in enumerate((("Q", "a"), ("D", "a"), ("C", "0")))
    ]


def test_a_long_text_has_every_request() -> None:
    # GIVEN a text of many times what is read ahead, some of whose events are a little late
    lines = events_of(70_000)
    for at in range(900, len(lines) - 9, 997):
        lines[at : at + 2] = lines[at + 1], lines[at]
    decoded = decode_text("\n".join(lines).encode())
    # THEN all requests are there, in order, and all lines are counted
    assert [row["sector"] for row in decoded.rows] == [8 * number for number in range(70_000)]
    assert all(row["complete_ns"] - row["queue_ns"] == 2 for row in decoded.rows)
    assert (decoded.stats.lines, decoded.stats.bad_lines) == (len(lines), 0)
    assert decoded.stats.reordered_records == len(range(900, len(lines) - 9, 997))


def test_a_decoder_of_a_slow_pipe_is_closed_at_once() -> None:
    # GIVEN a pipe through which a text goes on line by line, and a decoder of it
    read_fd, write_fd = os.pipe()
    lines, is_over = events_of(80_000), threading.Event()

    def write() -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(write_fd, "\n".join([*lines[:-20_000], ""]).encode())
            for line in lines[-20_000:]:
                if is_over.wait(0.005):
                    return
                os.write(write_fd, f"{line}\n".encode())

    writer = threading.Thread(target=write)
    writer.start()
    with Decoder([read_fd]) as decoder:
        head = os.read(read_fd, HEAD_BYTES)
        decoder.set_text(detect_text(head), head)
        assert next(decoder.batches()).num_rows == 1 << 16
        # WHEN it is closed THEN it does not wait for the lines of a block
        begin = time.monotonic()
    assert time.monotonic() - begin < 5
    is_over.set()
    os.close(read_fd)
    writer.join(timeout=10)
    assert not writer.is_alive()
    os.close(write_fd)


def test_a_decoder_of_a_silent_pipe_is_closed_at_once() -> None:
    # GIVEN a pipe that stays open behind a text, and a decoder that is closed in its midst
    read_fd, write_fd = os.pipe()
    data = "\n".join(events_of(70_000)).encode()
    writer = threading.Thread(target=os.write, args=(write_fd, data))
    writer.start()
    with Decoder([read_fd]) as decoder:
        head = os.read(read_fd, HEAD_BYTES)
        decoder.set_text(detect_text(head), head)
        assert next(decoder.batches()).num_rows == 1 << 16
        # WHEN all is read but what is to come THEN it does not wait for that
        writer.join(timeout=10)
        begin = time.monotonic()
    assert time.monotonic() - begin < 5
    assert not writer.is_alive()
    os.close(read_fd)
    os.close(write_fd)
