"""The sample trace goes through the whole program as a user starts it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

SAMPLE = Path(__file__).resolve().parents[2] / "sample-traces" / "oltp"
QUEUED = re.compile(r"^\| Q queued \| (\d+) \|$", re.MULTILINE)


def tracekit(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tracekit", *words], capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.xdist_group("replay")
def test_run_takes_the_sample_to_a_report_and_an_answer(tmp_path: Path) -> None:
    # WHEN the sample is run with a replay of its first two seconds on a file
    trace = tmp_path / "demo"
    result = tracekit("run", str(SAMPLE), "-o", str(trace), "--replay-duration", "2s")
    # THEN it ends well, with the path of the report and four lines of answer
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == f"report: {trace / 'report.html'}"
    headline = lines[2:]
    assert headline == json.loads((trace / "recommendation.json").read_text())["headline"]
    assert len(headline) == 4
    assert "Traceback" not in result.stderr
    # AND the report says that first, and lacks nothing
    page = (trace / "report.html").read_text()
    assert "Not in this report yet" not in page
    shown = re.search(r"<h1>(.*?)</h1>", page)
    assert shown is not None
    assert shown[1] == headline[0]
    # AND every queued request of the capture has its row, as the sample's own table counts them
    text = (SAMPLE.parent / "README.md").read_text()
    queued = QUEUED.search(text)
    assert queued is not None
    assert pq.read_metadata(trace / "requests.parquet").num_rows == int(queued[1])
    # AND the replay really ran: each of its requests was done, once, on the file
    done = pq.read_table(trace / "replays" / "latest" / "completions.parquet").to_pandas()
    summary = json.loads((trace / "replays" / "latest" / "summary.json").read_text())
    assert summary["counts"]["done"] == len(done) > 1000
    assert done["request_id"].is_unique
    assert set(done["status"]) == {"done"}
    assert summary["targets"][0]["kind"] == "made file"


@pytest.mark.slow
def test_the_same_folder_is_reported_in_the_same_bytes_by_two_processes(tmp_path: Path) -> None:
    trace = tmp_path / "demo"
    made = tracekit(
        "run", str(SAMPLE), "-o", str(trace), "--replay", "null", "--replay-duration", "1s"
    )
    assert made.returncode == 0, made.stderr
    again = tracekit("report", str(trace), "-o", str(tmp_path / "again.html"))
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "again.html").read_bytes() == (trace / "report.html").read_bytes()
