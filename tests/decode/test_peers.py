"""The sample capture as blkparse and btt see it: the same counts, the same latencies."""

import collections
import lzma
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.house.tree import ROOT
from tracekit.readers.blktrace import ParseOptions, parse
from tracekit.store import TraceFolder

SAMPLE = ROOT / "sample-traces" / "oltp"
Latency = tuple[int, float, int, int]

pytestmark = pytest.mark.skipif(
    not (shutil.which("blkparse") and shutil.which("btt")),
    reason="blkparse and btt are not installed (Debian: blktrace)",
)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sample's files, decompressed."""
    folder = tmp_path_factory.mktemp("plain")
    for path in SAMPLE.glob("*.xz"):
        (folder / path.stem).write_bytes(lzma.decompress(path.read_bytes()))
    return folder


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> TraceFolder:
    folder, _ = parse([SAMPLE], tmp_path_factory.mktemp("parsed") / "trace")
    return folder


def test_counts_by_action_are_those_of_blkparse(plain: Path, trace: TraceFolder) -> None:
    # GIVEN the action of every event as blkparse prints it
    printed = subprocess.run(
        ["blkparse", "-q", "-i", "oltp", "-f", "%a\n"],
        cwd=plain,
        capture_output=True,
        check=True,
        text=True,
    ).stdout.splitlines()
    actions = [line for line in printed if not line.startswith("Input file")]
    # THEN the decoder counted the same
    assert trace.content["counts"]["actions"] == dict(collections.Counter(actions))


def test_nothing_of_the_sample_is_left_over(trace: TraceFolder) -> None:
    assert trace.content["loss"]["lost_records"] == 0
    assert set(trace.content["loss"]["unmatched"].values()) == {0}


def test_a_stream_joined_by_blkparse_gives_the_same_rows(
    plain: Path, trace: TraceFolder, tmp_path: Path
) -> None:
    # GIVEN blkparse's dump: one stream, the times of events relative, those of notifies not
    dump = ["blkparse", "-q", "-O", "-i", "oltp", "-d", str(tmp_path / "dump")]
    subprocess.run(dump, cwd=plain, capture_output=True, check=True)
    # WHEN it is parsed
    options = ParseOptions(layout_file=SAMPLE / "layout.json")
    joined, _ = parse([tmp_path / "dump"], tmp_path / "trace", options=options)
    # THEN every column is that of the files, and that the wall clock is near is said
    assert pq.read_table(joined.table("requests")).equals(pq.read_table(trace.table("requests")))
    assert joined.content["loss"]["unmatched"] == trace.content["loss"]["unmatched"]
    assert [guess["what"] for guess in joined.content["inferences"]] == [
        "wall clock of the first event"
    ]


def btt_table(folder: Path) -> dict[str, Latency]:
    """Return minimum, mean, maximum (ns) and number of each latency that btt prints."""
    subprocess.run(
        ["blkparse", "-q", "-O", "-i", "oltp", "-d", "joined"],
        cwd=folder,
        capture_output=True,
        check=True,
    )
    subprocess.run(["btt", "-i", "joined", "-o", "out"], cwd=folder, check=True, timeout=60)
    table: dict[str, Latency] = {}
    for line in (folder / "out.avg").read_text().splitlines():
        words = line.split()
        if len(words) == 5 and words[0] in LATENCIES and words[0] not in table:
            low, mean, high = (float(word) * 1e9 for word in words[1:4])
            table[words[0]] = (round(low), mean, round(high), int(words[4]))
    return table


# Which rows and which two columns make each of btt's latencies; see docs/requests.md.
LATENCIES = {
    "Q2Q": None,
    "Q2G": ("own", "queue_ns", "getrq_ns"),
    "G2I": ("own", "getrq_ns", "insert_ns"),
    "Q2M": ("all", "queue_ns", "merge_ns"),
    "I2D": ("own", "insert_ns", "issue_ns"),
    "M2D": ("all", "merge_ns", "issue_ns"),
    "D2C": ("all", "issue_ns", "transfer_ns"),
    "Q2C": ("all", "queue_ns", "transfer_ns"),
}


def our_table(trace: TraceFolder) -> dict[str, Latency]:
    requests = pq.read_table(trace.table("requests")).to_pandas()
    requests = requests[requests.length_bytes > 0]
    table: dict[str, Latency] = {}
    for name, recipe in LATENCIES.items():
        if recipe is None:
            spans = np.diff(requests.queue_ns)
        else:
            which, begin, end = recipe
            rows = requests[requests.merged_into.isna()] if which == "own" else requests
            spans = (rows[end] - rows[begin]).dropna().to_numpy()
        whole = spans.astype(np.int64)
        table[name] = (int(whole.min()), float(whole.mean()), int(whole.max()), len(whole))
    return table


def test_latencies_are_those_of_btt(plain: Path, trace: TraceFolder) -> None:
    # GIVEN btt's table of all devices, which has nanoseconds, and ours
    theirs, ours = btt_table(plain), our_table(trace)
    assert list(theirs) == list(LATENCIES)
    # THEN minimum, maximum and number are equal, and the mean as far as btt prints it
    for name, (low, mean, high, count) in theirs.items():
        assert (ours[name][0], ours[name][2], ours[name][3]) == (low, high, count), name
        assert ours[name][1] == pytest.approx(mean, abs=0.51), name
