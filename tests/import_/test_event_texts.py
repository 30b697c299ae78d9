"""Texts of events, imported: the shipped captures, one recorded in all forms, and bad input."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.house.tree import ROOT
from tracekit._native.decode import UNMATCHED
from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.readers.blktrace import ParseOptions, parse
from tracekit.readers.importing import import_trace
from tracekit.readers.units import ImportOptions
from tracekit.store import TraceFolder

SAMPLES = ROOT / "sample-traces"
RECORDED = Path(__file__).parent / "recorded"
TIMES = ("queue_ns", "getrq_ns", "insert_ns", "merge_ns", "issue_ns", "transfer_ns", "complete_ns")
CLOCKS_NS = 20_000
"""How far clocks of two tracers, which look one after the other, were apart in that capture."""

needs_blkparse = pytest.mark.skipif(
    not shutil.which("blkparse"), reason="blkparse is not installed (Debian: blktrace)"
)


def table(folder: TraceFolder) -> Any:
    """Return the requests; words as such, whatever the order of the dictionaries."""
    found = pq.read_table(folder.table("requests"))
    words = [pa.types.is_dictionary(field.type) for field in found.schema]
    columns = [
        column.cast(pa.string()) if is_word else column
        for column, is_word in zip(found.columns, words, strict=True)
    ]
    return pa.table(columns, names=found.column_names)


def plain(name: str, folder: Path) -> Path:
    """Decompress a shipped capture into the folder, and return that."""
    for path in (SAMPLES / name).glob("*.xz"):
        (folder / path.stem).write_bytes(lzma.decompress(path.read_bytes()))
    shutil.copy(SAMPLES / name / "layout.json", folder)
    return folder


def printed(name: str, folder: Path, *options: str) -> Path:
    """Return the file of what blkparse prints of a shipped capture."""
    text = folder / f"{name}.txt"
    with text.open("wb") as file:
        command = ["blkparse", *options, "-i", name]
        subprocess.run(command, cwd=plain(name, folder), stdout=file, check=True)
    return text


@needs_blkparse
@pytest.mark.parametrize("name", ["browser", "gnuplot", "oltp", "video"])
def test_shipped_captures_printed_by_blkparse(name: str, tmp_path: Path) -> None:
    # GIVEN a capture, and the text that blkparse makes of it, with its summary
    text = printed(name, tmp_path)
    ours, _ = parse([SAMPLES / name], tmp_path / "parsed")
    # WHEN the text is imported
    theirs = import_trace(text, tmp_path / "imported")
    # THEN every column of every request is the same, and so is what was counted
    assert table(theirs).equals(table(ours))
    for key in ("actions", "device_flushes", "requests"):
        assert theirs.content["counts"][key] == ours.content["counts"][key]
    for key in ("unmatched", "lost_records", "has_sequence_numbers"):
        assert theirs.content["loss"][key] == ours.content["loss"][key]
    assert theirs.content["source"]["format"] == "blkparse"
    assert theirs.content["counts"]["bad_lines"] == 0
    assert theirs.content["layout"] == ours.content["layout"]


@needs_blkparse
@pytest.mark.parametrize(
    ("options", "lacking"),
    [
        (("-t",), {}),
        (("-f", "%D %2c %8s %5T.%9t %5p %2a %3d %S + %n [%C] %e\\n"), {"partition": None}),
        (("-f", "%M:%m;%c;%T;%t;%p;%a;%d;%S;%N\\n"), {"partition": None, "process": None}),
    ],
)
def test_other_formats_of_blkparse(
    options: tuple[str, ...], lacking: dict[str, None], tmp_path: Path
) -> None:
    # GIVEN a capture printed with the time of each I/O, or in a format of the user's own
    text = printed("video", tmp_path, *options)
    form = options[1] if options[0] == "-f" else None
    # WHEN it is imported, where no layout names processes
    layout = json.loads((tmp_path / "layout.json").read_text())
    (tmp_path / "layout.json").write_text(json.dumps({**layout, "processes": {}}))
    theirs = table(
        import_trace(text, tmp_path / "made", options=ImportOptions(blkparse_format=form))
    )
    # THEN only what the format lacks is not there
    shutil.copy(SAMPLES / "video" / "layout.json", tmp_path)
    parsed, _ = parse([tmp_path], tmp_path / "parsed")
    ours = table(parsed)
    for name in theirs.column_names:
        if name in lacking:
            assert theirs[name].null_count == len(theirs)
        else:
            assert theirs[name].equals(ours[name]), name
    assert parsed.content["loss"]["unmatched"] == dict.fromkeys(UNMATCHED, 0)


@pytest.mark.parametrize("name", ["blk_classic", "blk", "ftrace", "perf_ns", "perf"])
def test_one_run_recorded_in_all_forms(name: str, tmp_path: Path) -> None:
    # GIVEN one run on a loop device that the blk tracer (read in binary and as two texts), perf and
    # ftrace recorded at once; see recorded/record
    layout = RECORDED / "layout.json"
    binary = RECORDED / "loop.blktrace.0.xz"
    ours = table(parse([binary], tmp_path / "parsed", options=ParseOptions(layout_file=layout))[0])
    # WHEN a text of it is imported
    folder = import_trace(RECORDED / f"{name}.txt.xz", tmp_path / "imported")
    theirs = table(folder)
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
    told = " ".join(guess["value"] for guess in folder.content["inferences"])
    assert ("whole microseconds" in told) == (name != "perf_ns")


def recorded(name: str) -> bytes:
    return lzma.decompress((RECORDED / f"{name}.txt.xz").read_bytes())


@pytest.mark.parametrize("ending", ["gz", "xz", "zst", "bz2", "crlf", "cut"])
def test_compressed_or_with_other_endings(ending: str, tmp_path: Path) -> None:
    # GIVEN the same text compressed, with Windows' line endings, or without the last one
    data = recorded("perf")
    packed = {
        "gz": gzip.compress(data),
        "xz": lzma.compress(data),
        "bz2": bz2.compress(data),
        "zst": pa.Codec("zstd").compress(data, asbytes=True),
        "crlf": data.replace(b"\n", b"\r\n"),
        "cut": data[:-1],
    }[ending]
    (tmp_path / "text").write_bytes(packed)
    shutil.copy(RECORDED / "layout.json", tmp_path)
    # WHEN it is imported THEN the requests are those of the plain text
    made = import_trace(tmp_path / "text", tmp_path / "made")
    expected = import_trace(RECORDED / "perf.txt.xz", tmp_path / "expected")
    assert table(made).equals(table(expected))
    assert made.content["counts"]["bad_lines"] == 0


def test_a_pipe(tmp_path: Path) -> None:
    # GIVEN a compressed text on standard input
    command = [sys.executable, "-m", "tracekit", "import", "-", "-o", str(tmp_path / "made")]
    with (RECORDED / "ftrace.txt.xz").open("rb") as file:
        done = subprocess.run(
            [*command, "--json"], stdin=file, capture_output=True, check=True, env=os.environ
        )
    # WHEN it is imported THEN nothing is missing
    result = json.loads(done.stdout)
    assert result["counts"]["requests"] == 153
    assert result["source"]["format"] == "ftrace"
    assert result["devices"][0]["device"] == "7,5"


def spoilt(every: int, tmp_path: Path) -> Path:
    """Return a text of which each so many lines is wrong, behind the first."""
    lines = recorded("blk_classic").decode().splitlines()
    events = [line for line in lines if not line.startswith("#")]
    events[10::every] = [line.replace(" 7,5 ", " 7;5 ") for line in events[10::every]]
    path = tmp_path / "spoilt.txt"
    path.write_text("\n".join(events) + "\n")
    return path


def test_a_few_wrong_lines_are_counted(tmp_path: Path) -> None:
    path = spoilt(200, tmp_path)
    counts = import_trace(path, tmp_path / "made").content["counts"]
    assert counts["bad_lines"] == 4
    assert [example["line"] for example in counts["bad_examples"]] == [11, 211, 411, 611]
    assert counts["bad_examples"][0]["text"].startswith("  7;5 ")


def test_too_many_wrong_lines_stop(tmp_path: Path) -> None:
    path = spoilt(20, tmp_path)
    with pytest.raises(InputError, match=r"(?s)40 of 809 lines are wrong.*line 11:   7;5") as error:
        import_trace(path, tmp_path / "made")
    assert "--max-bad" in (error.value.hint or "")
    assert not (tmp_path / "made").exists()
    assert import_trace(path, tmp_path / "made", options=ImportOptions(most_bad_ratio=0.2)).content[
        "warnings"
    ]


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
def test_each_sort_of_wrong_line(name: str, tmp_path: Path) -> None:
    # GIVEN one wrong line among good ones
    path = tmp_path / "text"
    path.write_text(HEAD + WRONG[name] + "\n" + HEAD.replace(" 5.", " 7."))
    # WHEN it is imported THEN it is left out, counted, and shown with its number and beginning
    counts = import_trace(
        path, tmp_path / "made", options=ImportOptions(form="blkparse", most_bad_ratio=1)
    )
    assert (counts.content["counts"]["bad_lines"], counts.content["counts"]["requests"]) == (1, 2)
    shown = counts.content["counts"]["bad_examples"]
    assert shown[0]["line"] == 2
    assert WRONG[name].startswith(shown[0]["text"])


def test_time_that_runs_backwards(tmp_path: Path) -> None:
    # GIVEN two captures in one file
    path = tmp_path / "text"
    times = (f" {5 + place // 100}.{place % 100:02}" for place in range(600))
    later = "".join(HEAD.replace(" 5.00", time) for time in times)
    path.write_text(later + HEAD)
    # WHEN they are imported THEN the line is named
    told = "line 601: time runs backwards by 5990000000 ns, after the record at line 600"
    with pytest.raises(InputError, match=told):
        import_trace(path, tmp_path / "made")


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(lzma.decompress((RECORDED / "loop.blktrace.0.xz").read_bytes()))
    with pytest.raises(UsageError, match="a capture of blktrace"):
        import_trace(path, tmp_path / "made", options=ImportOptions(form="blkparse"))
    # A capture is read as `parse` reads it, known by its content
    made, _ = parse([path], tmp_path / "parsed")
    folder = import_trace(path, tmp_path / "imported")
    assert folder.table("requests").read_bytes() == made.table("requests").read_bytes()
    assert folder.content["counts"]["operations"]
    path.write_bytes(recorded("perf"))
    with pytest.raises(InputError) as refused:
        parse([path], tmp_path / "made")
    assert "tracekit import" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        (ImportOptions(blkparse_format="%T %a"), "--blkparse-format %T %a: it lacks"),
        (ImportOptions(blkparse_format="%a", form="perf"), "names the columns"),
        (ImportOptions(units=("time=us",)), "always nanoseconds"),
        (ImportOptions(form="blk"), "the first lines are not of it"),
        (ImportOptions(form="perv"), "there is no such format"),
    ],
)
def test_choices_that_cannot_be(choice: ImportOptions, told: str, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"neither\n" if choice.form == "blk" else recorded("perf"))
    with pytest.raises(TracekitError, match=told):
        import_trace(path, tmp_path / "made", options=choice)


def test_a_layout_belongs_to_events(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("419,W,8192,16384,1577808144360767\n")
    with pytest.raises(UsageError, match="--layout belongs to texts of events"):
        import_trace(
            path, tmp_path / "made", options=ImportOptions(layout_file=RECORDED / "layout.json")
        )
