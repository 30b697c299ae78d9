"""A trace in several files: their order, what is missing, and times without requests."""

import gzip
import os
import random
import resource
from hashlib import sha256
from pathlib import Path

import pytest

from tests import parsed as traces
from tests.command_line import succeed
from tests.import_.importer import Importer
from tracekit.errors import UsageError

NUMBERS = (1, 2, 4, 5, 9, 10, 11)


def lines_of(count: int, *, first_s: float = 0.0, seed: int = 1) -> list[str]:
    """Return lines of SPC in order of time, a hundred a second."""
    choose, time, found = random.Random(seed), first_s, list[str]()  # noqa: S311 - test data
    for _ in range(count):
        found.append(f"0,{choose.randrange(10**7) * 8},4096,r,{time:.6f}\n")
        time += choose.expovariate(100)
    return found


def written(folder: Path, names: list[str], *, seed: int = 1) -> tuple[list[Path], list[str]]:
    """Return files of these names, of which each goes on where the one before ends, and lines."""
    lines = lines_of(200 * len(names), seed=seed)
    for at, name in enumerate(names):
        data = "".join(lines[200 * at : 200 * at + 200]).encode()
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return sorted(folder / name for name in names), lines


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        ([f"t.csv.{number}" for number in NUMBERS], "t.csv.3, t.csv.6, t.csv.7, t.csv.8"),
        ([f"t.{number}.gz" for number in range(12)], ""),
        ([f"t-{number:03}.csv" for number in (7, 8, 10)], "t-009.csv"),
        (["t.csv.10.gz", "t.csv.9", "t.csv.2", "t.csv"], "t.csv.3, t.csv.4, t.csv.5"),
        (["t-2026-02-28.csv", "t-2026-03-01.csv", "t-2026-03-10.csv"], ""),
        (["t-9-2-2026", "t-28-2-2026", "t-1-3-2026"], ""),
        (["monday", "tuesday", "friday"], ""),
    ],
    ids=["numbers", "packed", "zeros", "logrotate", "dates", "days first", "words"],
)
def test_files_are_read_in_their_order(
    read: Importer, tmp_path: Path, names: list[str], missing: str
) -> None:
    # GIVEN a trace in files, which a shell names in the order of letters
    files, lines = written(tmp_path, names)
    # WHEN they are imported, with an empty one among them
    (tmp_path / "empty").touch()
    made = read([tmp_path / "empty", *files])
    # THEN they are one trace in the order of its times, as one file with all lines is
    found = [file["name"] for file in made.content["source"]["files"]]
    assert [name for name in found if name != "empty"] == names
    assert traces.rows(made) == read.rows("".join(lines))
    # AND files whose numbers are missing are named
    said = traces.warnings(made).get("absent_files", "")
    assert said.removeprefix("missing between the others: ").startswith(missing)
    assert bool(said) == bool(missing)
    assert "long_gaps" not in traces.warnings(made)


def test_files_of_a_clock_each_stay_in_the_order_of_their_numbers(
    read: Importer, tmp_path: Path
) -> None:
    # GIVEN two traces, the second of which begins a little earlier on its own clock
    texts = ["".join(lines_of(300, first_s=first, seed=9)) for first in (0.4, 0.1)]
    files = [tmp_path / f"t.{number}" for number in (1, 2)]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    # THEN the file and its line are named where the clock starts again
    read.rejects(files[::-1], r"line 1: .* \[t\.2\]", hint="--join sequence")
    made = read(files[::-1], join="sequence")
    # AND one goes on where the other ends
    assert traces.rows(made) == read.rows("".join(texts), join="sequence")


def test_a_wrong_line_is_named_with_its_file(read: Importer, tmp_path: Path) -> None:
    files, _ = written(tmp_path, ["t.1", "t.2", "t.3"])
    text = files[1].read_text().splitlines(keepends=True)
    # GIVEN files each with a header, one without a last newline, and a wrong line in the second
    for file in files:
        file.write_text("ASU,LBA,Size,Opcode,Timestamp\n" + file.read_text().rstrip("\n"))
    text[4] = "what is this\n"
    files[1].write_text("ASU,LBA,Size,Opcode,Timestamp\n" + "".join(text))
    # WHEN they are imported THEN nothing else is lost
    made = read(files)
    counts = made.content["counts"]
    assert counts["bad_examples"] == [{"line": 6, "text": "what is this [t.2]"}]
    assert (counts["requests"], counts["bad_lines"]) == (599, 1)
    # AND its bytes are told
    begin = len("ASU,LBA,Size,Opcode,Timestamp\n" + "".join(text[:4]))
    said = f"1 line was wrong and left out: t.2: 12 bytes from byte {begin:,} (line 6)"
    assert traces.warnings(made)["bad_lines"] == said


def test_damage_is_told_by_file(read: Importer, tmp_path: Path) -> None:
    # GIVEN three files, the last two with zeros in the place of some of their bytes
    files, _ = written(tmp_path, ["t.1", "t.2", "t.3"])
    told = list[str]()
    for file in files[1:]:
        text = file.read_bytes()
        text = text[:1000] + bytes(500) + text[1500:]
        begin, end = text.rindex(b"\n", 0, 1000) + 1, text.index(b"\n", 1500)
        line = text.count(b"\n", 0, 1000) + 1
        usual = (len(text) - (end - begin)) / (text.count(b"\n") - 1)
        file.write_bytes(text)
        told.append(f"{file.name}: {end - begin} bytes from byte {begin:,} (line {line})")
        told[-1] += f", 500 of them zero; about {(end - begin) / usual:.0f} lines"
    # THEN each has its name, its bytes and about how many lines
    said = traces.warnings(read(files))["bad_lines"]
    assert all(one in said for one in told), (said, told)
    assert "t.1" not in said


def test_times_without_a_request_are_reported(read: Importer, tmp_path: Path) -> None:
    # GIVEN ten files, and one that is missing in the middle of their time
    files, lines = written(tmp_path, [f"t-{letter}" for letter in "abcdefghijk"])
    files[4].unlink()
    before, after = (float(lines[at].rsplit(",", 1)[1]) for at in (799, 1000))
    gap = f"no request for {after - before:,.3f} s from {before:,.3f} s on"
    # THEN it is told between its neighbours, though it is no tenth of the trace
    left = [*files[:4], *files[5:]]
    assert traces.warnings(read(left))["long_gaps"] == f"{gap}, between t-d and t-f"
    # AND of one text where it is a tenth
    text = "".join([*lines[:800], *lines[1000:]])
    assert "long_gaps" not in traces.warnings(read(text))
    short = "".join([*lines[600:800], *lines[1000:1200]])
    assert traces.warnings(read(short))["long_gaps"].startswith(
        f"no request for {after - before:,.3f}"
    )


def test_what_is_not_read_together(read: Importer, tmp_path: Path) -> None:
    files, _ = written(tmp_path, ["t.1", "t.2"])
    files[1].write_text("1,2\n" * 20)
    read.rejects(files, "t.2: there is no line of the format spc", error=UsageError)
    pipe = [files[0], Path("-")]
    read.rejects(pipe, "2 files: records and pipes", error=UsageError, hint="by itself")


def test_the_command_says_how_many_files(tmp_path: Path) -> None:
    files, _ = written(tmp_path, ["t.1", "t.2"])
    shown = succeed("import", *files, "-o", tmp_path / "made").stdout
    assert "(spc, 2 files)\n" in shown


def test_a_damaged_file_stays_at_its_place(read: Importer, tmp_path: Path) -> None:
    # GIVEN three packed files of which the second lacks its last bytes, but no line
    files, lines = written(tmp_path, [f"t.csv.{number}.gz" for number in (1, 2, 3)])
    files[1].write_bytes(files[1].read_bytes()[:-6])
    # WHEN what is damaged is passed over THEN the files are in the order of their numbers
    made = read(files, salvages=True)
    assert traces.rows(made) == read.rows("".join(lines))
    assert "t.csv.2.gz" in traces.warnings(made)["salvaged"]


def test_many_files_are_opened_one_behind_the_other(read: Importer, tmp_path: Path) -> None:
    # GIVEN more files, plain and packed, than a process may open
    files, _ = written(tmp_path, [f"t.{n}{'.gz' * (n % 2)}" for n in range(60)])
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 40,
                                                limits[1]))  # fmt: skip
    try:
        made = read(files)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    # THEN all are read, and each is hashed to its end
    told = {one["name"]: one["sha256"] for one in made.content["source"]["files"]}
    assert told == {file.name: sha256(file.read_bytes()).hexdigest() for file in files}
    assert made.content["counts"]["requests"] == 60 * 200


def test_whole_seconds_have_no_gaps(read: Importer) -> None:
    lines = [f"{1538323200 + number // 400},{number * 8},8,0,1063\n" for number in range(2000)]
    assert "long_gaps" not in traces.warnings(read("".join(lines), form="tencent"))


@pytest.mark.parametrize("many", [50, 1000])
def test_a_long_preamble_may_be_another_trace(read: Importer, many: int) -> None:
    # GIVEN lines of a log before the requests, THEN many of them are a warning
    log = [f"host kernel: audit: type=1400 pid={number} comm=cron\n" for number in range(many)]
    said = traces.warnings(read("".join([*log, *lines_of(1000)])))
    assert ("1,000 lines stand before" in said.get("long_preamble", "")) == (many == 1000)
