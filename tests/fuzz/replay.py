"""Run the inputs of one fuzzer through the library as it was built, and print what fails.

python -m tests.fuzz.replay decode [NUMBER_OF_THE_FIRST]

An input that ends the process is the last whose name was printed.
"""

import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.capture.strace_text import decode_text as decode_calls
from tests.decode.records import Decoded, decode
from tests.decode.test_texts import decode_text
from tests.fuzz import corpus
from tracekit._native.decode import DecodeError, Place, Problem, Text, detect_text
from tracekit._native.readers import ColumnReader, Kind, OctfError, OctfReader
from tracekit._native.readers import Problem as OctfProblem
from tracekit.errors import InputError

HAS_HEAD, HEAD_BYTES = 0x80, 64
KNOWN = 0x80
FORMS = (
    "%D %2c %8s %5T.%9t %5p %2a %3d %S + %n [%C] %e\\n",
    "%M:%m;%c;%T;%t;%p;%a;%d;%S;%N\n",
    "%T|%C|%a|%d|%S|%n|%g%U",
)
SHAPES: tuple[list[tuple[Kind, int] | tuple[Kind, int, int]], ...] = (
    [
        (Kind.INTEGER, 0, 1000),
        (Kind.DECIMAL, 9),
        (Kind.CHOICE, 0),
        (Kind.WORD, 0),
        (Kind.MAYBE, 6, (1 << 61) - 1),
    ],
    [(Kind.POINT, 3), (Kind.DIGITS, 0), (Kind.PASSED, 0), (Kind.WORD, 0), (Kind.INTEGER, 0)],
    [
        (Kind.DATE, 0, (1 << 62) - 1),
        (Kind.NAME, 0),
        (Kind.INTEGER, 0),
        (Kind.WORD, 0),
        (Kind.DATE, 0),
    ],
)
DATES = 16
MOST_FILES = 3
SALVAGE = 0x80


def check_calls(data: bytes, folder: Path) -> None:
    # WHEN an input is decoded THEN rows come in order, or it is rejected
    try:
        rows, found = decode_calls(folder, data[1:])
    except InputError:
        return
    assert [row["operation_id"] for row in rows] == list(range(found.stats["rows"]))
    assert [row["start_ns"] for row in rows] == sorted(row["start_ns"] for row in rows)


def check_decode(data: bytes, _folder: Path) -> None:
    # GIVEN an input as decode_fuzz.c cuts it
    options, files = cut(data)

    # WHEN it is decoded
    found = outcome(files, keeps_whole=bool(options & SALVAGE))

    # THEN rows come in order, or the problem has a name and a place
    if isinstance(found, Place):
        assert found.kind not in {Problem.NONE, Problem.MEMORY}
        assert 0 <= found.offset <= len(files[found.file])
    else:
        assert [row["request_id"] for row in found.rows] == list(range(found.stats.rows))


def cut(data: bytes) -> tuple[int, list[bytes]]:
    """Return an input's first byte, and the rest as the files that it is cut into."""
    options, data = data[0], data[1:]
    count = options % MOST_FILES + 1
    share = len(data) // count
    begins = [share * place for place in range(count)]
    ends = [*begins[1:], None]
    return options, [data[begin:end] for begin, end in zip(begins, ends, strict=True)]


def outcome(files: list[bytes], *, keeps_whole: bool) -> Decoded | Place:
    try:
        return decode(*files, keeps_whole=keeps_whole)
    except DecodeError as error:
        return error.place


def check_texts(data: bytes, _folder: Path) -> None:
    # GIVEN an input as texts_fuzz.c reads it
    options, data = data[0], data[1:]
    kind = detect_text(data[: 1 << 16]) if options & KNOWN else Text(1 + options % Text.SCSI)
    if kind == Text.NONE:
        return
    form = FORMS[(options >> 2) % 3] if kind == Text.FORM else None
    # WHEN it is decoded
    found = text_outcome(data, kind, form)
    # THEN the problem has the number of a line
    if isinstance(found, Place):
        assert found.kind == Problem.BACKWARDS
        assert 0 < found.other < found.offset <= data.count(b"\n") + 1
        return
    # OR every line is an event, passed over, or wrong
    stats = found.stats
    assert stats.lines == stats.records + stats.passed_lines + stats.bad_lines
    assert [row["request_id"] for row in found.rows] == list(range(stats.rows))


def text_outcome(data: bytes, kind: Text, form: str | None) -> Decoded | Place:
    try:
        return decode_text(data, kind, form=form)
    except DecodeError as error:
        return error.place


def check_columns(data: bytes, _folder: Path) -> None:
    # GIVEN an input as columns_fuzz.c reads it
    options, data = data[0], data[1:] + b"\n"
    reader = ColumnReader(
        SHAPES[2 if options & DATES else options & 1],
        ", \t;"[options >> 1 & 3],
        choices=["read", "write", ""],
        has_more=bool(options >> 3 & 1),
    )
    # WHEN it is read THEN each line gives a row, is named as wrong, or is empty
    found = reader.read(data)
    empty = sum(not line.strip(b" \t\r") for line in data.split(b"\n")[:-1])
    assert found.lines == data.count(b"\n")
    assert found.rows + len(found.wrong) + empty == found.lines
    words = reader.words(3).to_pylist()
    assert all(0 <= index < len(words) for index in found.values[3].tolist())


def check_octf(data: bytes, folder: Path) -> None:
    # GIVEN an input as octf_fuzz.c cuts it
    options, files = cut(data)
    fds = []
    for number, part in enumerate(files):
        (folder / str(number)).write_bytes(part)
        fds.append(os.open(folder / str(number), os.O_RDONLY))
    head = os.read(fds[0], HEAD_BYTES) if options & HAS_HEAD else b""
    # WHEN it is read
    with OctfReader(fds, head) as reader:
        found = octf_outcome(reader)
        # THEN there is a row of each request, or the problem has a name and a place
        if isinstance(found, int):
            assert found == reader.stats().requests <= reader.stats().messages
        else:
            assert found.kind not in {OctfProblem.NONE, OctfProblem.MEMORY}
            assert 0 <= found.offset <= len(files[found.file])
    for fd in fds:
        os.close(fd)


def octf_outcome(reader: OctfReader) -> int | Place:
    """Return how many rows came, or where they ended too early."""
    rows = 0
    try:
        while count := len((found := reader.read())["time"]):
            rows += count
            assert found["device"].max() < len(reader.devices())
            assert found["response"].min() >= -1
    except OctfError as error:
        return error.place
    return rows


CHECKS: dict[str, Callable[[bytes, Path], None]] = {
    "calls": check_calls,
    "columns": check_columns,
    "decode": check_decode,
    "octf": check_octf,
    "texts": check_texts,
}


def main() -> None:
    target, first = sys.argv[1], int(*sys.argv[2:])
    for name, data in list(corpus.read(target).items())[first:]:
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()
        with tempfile.TemporaryDirectory() as folder:
            try:
                CHECKS[target](data, Path(folder))
            except Exception:
                sys.stderr.write(f"{target}/{name}: {traceback.format_exc()}\n")


if __name__ == "__main__":
    main()
