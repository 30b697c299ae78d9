"""What of a whole trace there is: CPUs, actions, columns and completions, and advice by cause."""

import re
from pathlib import Path

import pytest

from tests import parsed as traces
from tests.import_.importer import Importer
from tests.import_.test_drivers import recorded
from tests.import_.test_event_texts import needs_blkparse, printed

LINE = re.compile(r"\[(\d+)\] .*: (block_rq_issue|block_rq_complete): (\d+,\d+) (\w+) .* (\d+) \+")


def test_a_text_of_one_cpu_of_two(read: Importer) -> None:
    # GIVEN the buffer of one CPU alone, whose header says how many there are
    text = recorded("nvme0n1.ftrace")
    kept = "".join(f"{line}\n" for line in text.splitlines() if "[001]" not in line)
    assert "#P:2" in kept
    # WHEN it is imported THEN the other one is named, and no larger buffers are advised
    made = read(kept)
    assert made.content["completeness"]["absent_cpus"] == [1]
    said = {one["code"]: one for one in made.content["warnings"]}
    assert said["absent_cpus"]["message"].startswith("no event is of CPU 1, of 2 CPUs")
    assert not [one for one in said.values() if "larger buffers" in one["advice"]]
    # AND of the whole text nothing is said, nor of a machine whose other CPUs did little
    whole = read(text)
    assert whole.content["completeness"]["absent_cpus"] == []
    few = re.sub(r"#P:2", "#P:64", "\n".join(text.splitlines()[:120]) + "\n")
    idle = read(few)
    assert idle.content["completeness"]["absent_cpus"] == list(range(2, 64))
    assert not {"absent_cpus"} & {*traces.warnings(whole), *traces.warnings(idle)}


@pytest.mark.parametrize(
    ("header", "told"),
    [("cpus=4\n", 4), ("# nrcpus online : 4\n", 4), ("# entries #P:4\n", 4), ("", 2)],
)
def test_how_many_cpus_there_are(read: Importer, header: str, told: int) -> None:
    lines = recorded("nvme0n1.ftrace").splitlines()
    text = header + "".join(f"{line}\n" for line in lines if not line.startswith("#"))
    assert read(text).content["completeness"]["absent_cpus"] == list(range(2, told))


def test_columns_and_completions_are_counted(read: Importer) -> None:
    # GIVEN a text without the completions of one place in three
    lines = recorded("sda.ftrace").splitlines()
    found = [(line, LINE.search(line)) for line in lines if "block_rq" in line]
    kept = [line for line, one in found if one and not (one[2][9] == "c" and int(one[5]) % 24 < 8)]
    folder = read("\n".join(kept) + "\n")
    made = folder.content
    # THEN each column has as many as an independent count of the lines says
    issued = sum("block_rq_issue" in line and " + 0 " not in line for line in kept)
    columns, rows = made["completeness"]["columns"], made["counts"]["requests"]
    assert rows == issued
    assert columns["queue_ns"] == 0
    assert columns["issue_ns"] == columns["operation"] == columns["process"] == rows
    ended = sum("block_rq_complete" in line and " + 0 " not in line for line in kept)
    assert columns["complete_ns"] == ended < rows
    said = traces.warnings(folder)
    assert said["open_requests"].startswith(f"{rows - ended:,} of {rows:,} requests")
    assert made["completeness"]["absent_actions"] == ["Q (queued)"]


def test_columns_of_a_table(read: Importer) -> None:
    # GIVEN responses of which one in two is empty
    rows = "".join(
        f"{1455592800 + n}.5,{'' if n % 2 else 0.001},R,1,{4096 * n},4096\n" for n in range(200)
    )
    folder = read("Timestamp,Response,IOType,LUN,Offset,Size\n" + rows)
    made = folder.content
    expected = {"queue_ns": 200, "issue_ns": 0, "complete_ns": 100, "operation": 200}
    assert made["completeness"]["columns"] == {**expected, "process": 0, "pid": 0}
    assert "100 of 200 requests (50.0%)" in traces.warnings(folder)["open_requests"]


@needs_blkparse
@pytest.mark.parametrize(
    ("summary", "code", "why"),
    [
        ("Skips: 0 forward (0 -   0.0%)\n", "left_out_records", "those of lines that are left out"),
        ("", "left_out_records", "those of lines that are left out, and lost ones, if any"),
        ("Skips: 7 forward (1,234 -   5.0%)\n", "lost_records", "the tracer dropped 0"),
    ],
)
def test_why_records_are_missing(
    read: Importer, summary: str, code: str, why: str, tmp_path: Path
) -> None:
    # GIVEN the reads of a text of blkparse, which says that it missed none, or nothing, or some
    lines = printed("gnuplot", tmp_path).read_text().splitlines()
    reads = [line for line in lines if len(line.split()) > 6 and line.split()[6].startswith("R")]
    # WHEN they are imported THEN larger buffers are advised only where records were lost
    made = read("\n".join(reads) + "\n" + summary)
    said = {one["code"]: one for one in made.content["warnings"]}
    assert said[code]["message"].endswith(why)
    advised = [one["code"] for one in said.values() if "larger buffers" in one["advice"]]
    assert advised == (["lost_records"] if code == "lost_records" else [])
