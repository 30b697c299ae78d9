"""Texts of events, imported: the shipped captures, one run recorded in all forms, bad input."""

import json
import lzma
import os
import random
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests import parsed as traces
from tests.house.tree import ROOT
from tests.import_.examples import RECORDED
from tests.import_.importer import Importer
from tests.parsed import COMPRESSORS, requests
from tracekit._native.decode import UNMATCHED
from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.readers.blktrace import ParseOptions, parse
from tracekit.store import TraceFolder

SAMPLES = ROOT / "sample-traces"
LAYOUT = RECORDED / "layout.json"
BINARY = RECORDED / "loop.blktrace.0.xz"
TIMES = ("queue_ns", "getrq_ns", "insert_ns", "merge_ns", "issue_ns", "transfer_ns", "complete_ns")
CLOCKS_NS = 20_000
"""How far clocks of two tracers, which look one after the other, were apart in that capture."""
needs_blkparse = pytest.mark.skipif(
    not shutil.which("blkparse"), reason="blkparse is not installed (Debian: blktrace)"
)


def recorded(name: str) -> bytes:
    return lzma.decompress((RECORDED / f"{name}.txt.xz").read_bytes())


def printed(name: str, folder: Path, *options: str) -> Path:
    """Return the file of what blkparse prints of a shipped capture, beside its layout."""
    for path in (SAMPLES / name).glob("*.xz"):
        (folder / path.stem).write_bytes(lzma.decompress(path.read_bytes()))
    shutil.copy(SAMPLES / name / "layout.json", folder)
    text = folder / f"{name}.txt"
    with text.open("wb") as file:
        subprocess.run(["blkparse", *options, "-i", name], cwd=folder, stdout=file, check=True)
    return text


@needs_blkparse
@pytest.mark.parametrize("name", ["browser", "gnuplot", "oltp", "video"])
def test_shipped_captures_printed_by_blkparse(read: Importer, name: str, tmp_path: Path) -> None:
    # GIVEN a capture, and the text that blkparse makes of it, with its summary
    ours, _ = parse([SAMPLES / name], tmp_path / "parsed")
    # WHEN the text is imported
    theirs = read(printed(name, tmp_path))
    # THEN every column of every request is the same, and so is what was counted
    assert requests(theirs).equals(requests(ours))
    for key in ("actions", "device_flushes", "requests"):
        assert theirs.content["counts"][key] == ours.content["counts"][key]
    for key in ("unmatched", "lost_records", "has_sequence_numbers"):
        assert theirs.content["loss"][key] == ours.content["loss"][key]
    assert theirs.content["source"]["format"] == "blkparse"
    assert theirs.content["counts"]["bad_lines"] == 0
    assert theirs.content["layout"] == ours.content["layout"]


@needs_blkparse
@pytest.mark.parametrize(
    ("options", "missing"),
    [
        (("-t",), set()),
        (("-f", "%D %2c %8s %5T.%9t %5p %2a %3d %S + %n [%C] %e\\n"), {"partition"}),
        (("-f", "%M:%m;%c;%T;%t;%p;%a;%d;%S;%N\\n"), {"partition", "process"}),
    ],
)
def test_other_formats_of_blkparse(
    read: Importer, options: tuple[str, ...], missing: set[str], tmp_path: Path
) -> None:
    # GIVEN a capture printed with the time of each I/O, or in a format of the user's own
    text = printed("video", tmp_path, *options)
    form = options[1] if options[0] == "-f" else None
    # WHEN it is imported, where no layout names processes
    layout = json.loads((tmp_path / "layout.json").read_text())
    (tmp_path / "layout.json").write_text(json.dumps({**layout, "processes": {}}))
    theirs = requests(read(text, blkparse_format=form))
    # THEN only what is missing in the format is not there
    shutil.copy(SAMPLES / "video" / "layout.json", tmp_path)
    parsed, _ = parse([tmp_path], tmp_path / "parsed")
    ours = requests(parsed)
    for name in theirs.column_names:
        if name in missing:
            assert theirs[name].null_count == len(theirs)
        else:
            assert theirs[name].equals(ours[name]), name
    assert parsed.content["loss"]["unmatched"] == dict.fromkeys(UNMATCHED, 0)


@needs_blkparse
@pytest.mark.parametrize(
    ("kept", "absent"),
    [("QC", "D (issued)"), ("DC", "Q (queued)"), ("IDC", "Q (queued)"), ("QD", "C (completed)")],
)
def test_a_text_of_some_actions(read: Importer, kept: str, absent: str, tmp_path: Path) -> None:
    # GIVEN a capture that lost nothing, of which a text has some actions only
    lines = printed("sysbench", tmp_path).read_text().splitlines()
    parts = (line.split() for line in lines)
    chosen = [" ".join(part) for part in parts if len(part) > 6 and part[5] in kept]
    # WHEN it is imported
    said = traces.warnings(read("\n".join(chosen) + "\n"))
    # THEN the actions that it lacks are named, and no larger buffers are advised
    assert said["absent_actions"] == f"no event is of the action {absent}"
    assert "those of the actions that are left out" in said["left_out_records"]
    assert not {"lost_records", "unmatched_events"} & set(said)


@pytest.mark.parametrize("name", ["blk_classic", "blk", "ftrace", "perf_ns", "perf"])
def test_one_run_recorded_in_all_forms(read: Importer, name: str, tmp_path: Path) -> None:
    # GIVEN one run on a loop device that the blk tracer (read in binary and as two texts), perf and
    # ftrace recorded at once; see recorded/record
    options = ParseOptions(layout_file=LAYOUT)
    ours = requests(parse([BINARY], tmp_path / "parsed", options=options)[0])
    # WHEN a text of it is imported
    folder = read(RECORDED / f"{name}.txt.xz")
    theirs = requests(folder)
    # THEN the requests are the same, and their times as far as two clocks and microseconds are
    assert folder.content["source"]["format"] == name.partition("_")[0]
    assert theirs.num_rows == ours.num_rows == 153
    differing = {column for column in ours.column_names if not theirs[column].equals(ours[column])}
    if name == "blk_classic":
        assert differing == set()
        return
    # Of two events within a microsecond on two CPUs either may be first by another clock.
    assert differing <= {*TIMES, "depth"}
    depths = pc.sum(pc.not_equal(ours["depth"], theirs["depth"]).cast(pa.int64())).as_py()
    assert depths <= (1 if name.startswith("perf") else 0)
    for column in TIMES:
        apart = pc.max(pc.abs(pc.subtract(ours[column], theirs[column]))).as_py()
        assert apart <= (1000 if name == "blk" else CLOCKS_NS), column
    values = " ".join(guess["value"] for guess in folder.content["inferences"])
    assert ("whole microseconds" in values) == (name != "perf_ns")


@pytest.mark.parametrize("ending", [*COMPRESSORS, "crlf", "cut"])
def test_compressed_or_with_other_endings(read: Importer, ending: str) -> None:
    # GIVEN the same text compressed, with Windows' line endings, or without the last one
    data = recorded("perf")
    endings = {"crlf": data.replace(b"\n", b"\r\n"), "cut": data[:-1]}
    made = read(
        endings[ending] if ending in endings else COMPRESSORS[ending](data), layout_file=LAYOUT
    )
    # WHEN it is imported THEN the requests are those of the plain text
    assert requests(made).equals(requests(read(RECORDED / "perf.txt.xz")))
    assert made.content["counts"]["bad_lines"] == 0


PERF_HEAD = re.compile(r"^\s*(.+?) +(\d+) \[(\d+)\] +([0-9.]+): +(block:.*)$", re.MULTILINE)


@pytest.mark.parametrize(
    "head",
    [
        r"\1 \2/\2 [\3] \4: \5", r"\1 \2 [\3] \4:          1 \5", r"\1 \2 \4: \5",
        r"\2 [\3] \4: \5", r"[\3] \4: \5", r"\4: \5", r"\1 \2 \4:       1  \5", r"\4: 1 \5",
    ],
)  # fmt: skip
def test_heads_of_perf_script(read: Importer, head: str) -> None:
    # GIVEN a recording of perf, printed with other fields, with call chains and Windows' endings
    text = recorded("perf").decode()
    chain = "\n\tffffffff8145f3a0 blk_mq_start_request+0x10 ([kernel.kallsyms])\n"
    other = PERF_HEAD.sub(head.replace("\\5", "\\5" + chain), text)
    # WHEN both are imported, THEN they say the same but for the fields that are missing
    first, second = read(text), read(other.replace("\n", "\r\n"))
    missing = [name for name, field in (("cpu", r"\3"), ("pid", r"\2")) if field not in head]
    left, right = (requests(one).drop_columns(missing) for one in (first, second))
    assert left.equals(right)
    assert second.content["counts"]["bad_lines"] == 0


def test_what_trace_cmd_dropped_is_counted(read: Importer) -> None:
    made = read(recorded("ftrace") + b"CPU:1 [123 EVENTS DROPPED]\n")
    assert made.content["loss"]["dropped"] == 123
    assert made.content["counts"]["bad_lines"] == 0


def piped(path: Path, made: Path) -> TraceFolder:
    """Import a file on standard input."""
    command = [sys.executable, "-m", "tracekit", "import", "-", "-o", str(made)]
    with path.open("rb") as file:
        subprocess.run(command, stdin=file, capture_output=True, check=True)
    return TraceFolder(made)


def test_a_text_on_standard_input(tmp_path: Path) -> None:
    found = piped(RECORDED / "ftrace.txt.xz", tmp_path / "made").content
    assert found["counts"]["requests"] == 153
    assert found["source"]["format"] == "ftrace"
    assert found["devices"][0]["device"] == "7,5"


def test_a_binary_capture_on_standard_input_or_in_a_pipe(read: Importer, tmp_path: Path) -> None:
    # GIVEN a compressed capture of blktrace on standard input, and in a named pipe
    expected, _ = parse([Path(shutil.copy(BINARY, tmp_path))], tmp_path / "parsed")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(BINARY.read_bytes()))
    writer.start()
    other = read(pipe)
    writer.join()
    # WHEN they are imported THEN the requests are those of the file, from its beginning
    for folder in (piped(BINARY, tmp_path / "made"), other):
        assert requests(folder).equals(requests(expected))
        assert folder.content["source"]["format"] == "blktrace v7"


def test_times_that_are_differences_are_rejected(read: Importer) -> None:
    # GIVEN what perf script prints with --deltatime
    chance = random.Random(4)  # noqa: S311 - a fixed sequence, no secret
    events = ("block_rq_issue: 8,0 W 4096 () {} + 8 [x]", "block_rq_complete: 8,0 W () {} + 8 [0]")
    text = "".join(
        f"x 1 [000] 0.{chance.randrange(900):06}: block:{events[n % 2].format(n // 2 * 8)}\n"
        for n in range(400)
    )
    # WHEN it is imported THEN that is reported, and only --force-units goes on
    read.rejects(text, "of 400 events stand behind a later one", hint="--deltatime")
    assert read(text, forces_units=True).content["loss"]["reordered_records"] > 200


def spoilt(every: int) -> str:
    """Return a text of which each so many lines is wrong, behind the first."""
    lines = recorded("blk_classic").decode().splitlines()
    events = [line for line in lines if not line.startswith("#")]
    events[10::every] = [line.replace(" 7,5 ", " 7;5 ") for line in events[10::every]]
    return "\n".join(events) + "\n"


def test_a_few_wrong_lines_are_counted(read: Importer) -> None:
    counts = read(spoilt(200)).content["counts"]
    assert counts["bad_lines"] == 4
    assert [example["line"] for example in counts["bad_examples"]] == [11, 211, 411, 611]
    assert counts["bad_examples"][0]["text"].startswith("  7;5 ")


def test_too_many_wrong_lines_stop(read: Importer) -> None:
    message = r"(?s)40 of 809 lines are wrong.*line 11:   7;5"
    read.rejects(spoilt(20), message, hint="--max-bad")
    assert read(spoilt(20), most_bad_ratio=0.2).content["warnings"]


BEGIN = "  8,0    1        1     6.000000000     7  Q   "
HEAD = "  8,0    1        1     5.000000000     7  Q   R 8 + 8 [dd]\n"
WRONG = {
    "a place beyond 8 EiB": BEGIN + "R 99999999999999999 + 8 [dd]",
    "a length beyond 4 GiB": BEGIN + "R 8 + 8388608 [dd]",
    "a number of 20 digits": BEGIN + "R 10000000000000000000 + 8 [dd]",
    "a negative time": BEGIN.replace(" 6.", "-6.") + "R 8 + 8 [dd]",
    "ten digits of time": BEGIN.replace("000 ", "0000 ") + "R 8 + 8 [dd]",
    "no bracket": BEGIN + "R 8 + 8 [dd",
    "an unknown action": BEGIN.replace("Q", "Y") + "R 8 + 8 [dd]",
    "unknown letters": BEGIN + "RX 8 + 8 [dd]",
    "a device without minor": BEGIN.replace(",", " ") + "R 8 + 8 [dd]",
    "nothing behind the letters": BEGIN + "R",
    "bytes of no text": "\x00\x01\x02\x7f",
    "an error that is a word": BEGIN.replace("Q", "C") + "R 8 + 8 [dd]",
    "a remap from nowhere": BEGIN.replace("Q", "A") + "R 8 + 8 <- (8,1)",
    "a line without end": "x" * 300_000,
}


@pytest.mark.parametrize("name", WRONG)
def test_each_sort_of_wrong_line(read: Importer, name: str) -> None:
    # GIVEN one wrong line among good ones
    text = HEAD + WRONG[name] + "\n" + HEAD.replace(" 5.", " 7.")
    # WHEN it is imported THEN it is left out, counted, and shown with its number and beginning
    counts = read(text, form="blkparse", most_bad_ratio=1).content["counts"]
    assert (counts["bad_lines"], counts["requests"]) == (1, 2)
    assert counts["bad_examples"][0]["line"] == 2
    assert WRONG[name].startswith(counts["bad_examples"][0]["text"])


def test_time_that_runs_backwards(read: Importer) -> None:
    # GIVEN two captures in one file
    times = (f" {5 + place // 100}.{place % 100:02}" for place in range(600))
    later = "".join(HEAD.replace(" 5.00", time) for time in times)
    # WHEN they are imported THEN the line is named
    message = "line 601: time runs backwards by 5990000000 ns, after the record at line 600"
    read.rejects(later + HEAD, message)


def test_a_file_of_another_kind(read: Importer, tmp_path: Path) -> None:
    capture = lzma.decompress(BINARY.read_bytes())
    read.rejects(capture, "a capture of blktrace", error=UsageError, form="blkparse")
    # A capture is read as `parse` reads it, known by its content
    made, _ = parse([read.source], tmp_path / "parsed")
    folder = read(read.source)
    assert folder.table("requests").read_bytes() == made.table("requests").read_bytes()
    assert folder.content["counts"]["operations"]
    with pytest.raises(InputError) as rejected:
        parse([RECORDED / "perf.txt.xz"], tmp_path / "made")
    assert "tracekit import" in rejected.value.hint


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("perf", {"blkparse_format": "%T %a"}, "--blkparse-format %T %a: it lacks"),
        ("perf", {"blkparse_format": "%a", "form": "perf"}, "names the columns"),
        ("perf", {"units": ("time=us",)}, "units and operations of its own"),
        ("neither\n", {"form": "blk"}, "the first lines are not of it"),
        ("perf", {"form": "perv"}, "there is no such format"),
        (
            "419,W,8192,16384,1577808144360767\n",
            {"layout_file": LAYOUT},
            "--layout belongs to text dumps of events",
        ),
    ],
)
def test_choices_that_cannot_be(
    read: Importer, content: str, options: dict[str, Any], message: str
) -> None:
    data = recorded("perf") if content == "perf" else content
    read.rejects(data, message, error=TracekitError, **options)


def test_barriers_of_old_kernels(read: Importer) -> None:
    # GIVEN writes with a B, which kernels to 2.6.36 had in place of preflush and FUA
    lines = "".join(
        f"  8,0 1 {3 * n + at} {n + at / 10:.9f} 7 {action} {rwbs} {n * 8} + 8 {end}\n"
        for n, rwbs in enumerate(["WB", "WBS", "WBSM", "W"])
        for at, (action, end) in enumerate([("Q", "[dd]"), ("D", "[dd]"), ("C", "[0]")])
    )
    # THEN they are barriers, and none is lost
    made = read(lines)
    got = requests(made).to_pydict()
    assert got["is_preflush"] == got["is_fua"] == [True, True, True, False]
    assert got["is_meta"] == [False, False, True, False]
    assert None not in got["complete_ns"]
    assert made.content["counts"]["bad_lines"] == 0
