"""The command: a profile made of a trace, and how far its requests are from the trace's."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from tests.command_line import invoke, succeed
from tests.replay.trace import trace
from tracekit.tables import FIDELITY, FIDELITY_CURVE
from tracekit.workload.fidelity import compared
from tracekit.workload.model import OPERATIONS, Distribution
from tracekit.workload.reader import read_profile

SAMPLE = """target_size = "64MiB"
[[stream]]
role = "journal"
process = "jbd2/secret"
size = "8MiB"
arrival = { process = "exponential", mean = "2ms" }
request = [{ share = 1, operation = "write", access = "sequential", size = "4KiB" }]
[[stream]]
role = "fs"
process = "mysecretd"
start = "8MiB"
arrival = { process = "weibull", shape = 0.7, mean = "1ms" }
[[stream.request]]
share = 0.7
operation = "read"
access = "random"
size = { values = ["4KiB", "16KiB"], weights = [3, 1] }
align = "4KiB"
reuse = { share = 0.7, distance = { distribution = "lognormal", mean = 50, sigma = 1 } }
[[stream.request]]
share = 0.3
operation = "write"
access = "sequential"
run = { values = [1, 8], weights = [1, 1] }
size = "8KiB"
flags = ["sync"]
"""


def share_of(sizes: Distribution, size: int) -> float:
    """Return the share of a size among some, or of the only one."""
    values = sizes.values or (sizes.scale,)
    shares = np.diff(sizes.up_to or (1.0,), prepend=0)
    return float(sum(shares[at] for at, value in enumerate(values) if value == size))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return a folder with a synthetic trace, the profile of it, and what the command said."""
    folder = tmp_path_factory.mktemp("fit")
    (folder / "known.toml").write_text(SAMPLE)
    made = invoke("generate", folder / "known.toml", "--requests", "30000", "-o", folder / "trace")
    assert made.exit_code == 0, made.output
    result = succeed("fit", folder / "trace", "-o", folder / "found.toml", "--json")
    return folder, json.loads(result.output)


def test_what_is_known_is_found_again(fitted: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = fitted
    found = read_profile(folder / "found.toml")
    fs, journal = found.streams
    # THEN streams are those of role and process, the one with most requests first
    assert [(one.role, one.process) for one in (fs, journal)] == [
        ("fs", "process 1"),
        ("journal", "process 2"),
    ]
    # AND the regions are as large as what was touched, one behind the other
    assert (journal.start_bytes, journal.size_bytes) in ((0, 8 << 20), (56 << 20, 8 << 20))
    assert {fs.size_bytes, journal.size_bytes} == {56 << 20, 8 << 20}
    # AND kinds have their shares, sizes and flags
    read, write = ([one for one in fs.requests if one.operation == name] for name in OPERATIONS[:2])
    assert {one.flags for one in read} == {()}
    assert {one.flags for one in write} == {("sync",)}
    shares = [sum(one.share for one in kinds) for kinds in (read, write)]
    assert shares == pytest.approx([0.7, 0.3], abs=0.01)
    small = sum(one.share * share_of(one.size, 4096) for one in read) / shares[0]
    assert small == pytest.approx(0.75, abs=0.01)
    # AND reads on used pages are known: those that were asked for, and some that hit by chance
    used = sum(one.share for one in read if one.is_used) / shares[0]
    assert 0.7 < used < 0.85
    # AND a journal is known by its going round
    (only,) = journal.requests
    assert only.circle == (0, 8 << 20)


def test_the_sheet_is_kept_and_small(fitted: tuple[Path, dict[str, Any]]) -> None:
    folder, told = fitted
    table = pq.read_table(folder / "trace" / "fidelity.parquet")
    curve = pq.read_table(folder / "trace" / "fidelity_curve.parquet")
    assert (table.schema.names, curve.schema.names) == (FIDELITY.names, FIDELITY_CURVE.names)
    assert table.to_pylist() == told["fidelity"]
    rows = {row["measure"]: row for row in told["fidelity"] if row["role"] == "all"}
    # THEN requests made of the profile are close to the trace, which is of known distributions
    # (the journal goes round: two seeds of the very profile are up to 0.06 apart where it fits)
    limits = {"mix": 0.01, "size": 0.01, "gap": 0.03, "run_length": 0.05, "miss_ratio": 0.09}
    assert {name: rows[name]["largest_gap_ratio"] < limit for name, limit in limits.items()} == (
        dict.fromkeys(limits, True)
    )
    assert rows["miss_ratio"]["mean_gap"] < 0.03
    assert {row["role"] for row in told["fidelity"]} == {"all", "fs", "journal"}
    assert set(curve["source"].to_pylist()) == {"original", "synthetic"}
    assert not [path.name for path in (folder / "trace").iterdir() if "synthetic" in path.name]


def test_no_name_and_no_address_is_in_the_profile(fitted: tuple[Path, dict[str, Any]]) -> None:
    folder, told = fitted
    text = (folder / "found.toml").read_text()
    assert "secret" not in text
    assert "secret" not in json.dumps(told)
    # AND names are there if asked for
    succeed("fit", folder / "trace", "-o", folder / "named.toml", "--names", "--no-compare")
    assert {one.process for one in read_profile(folder / "named.toml").streams} == {
        "jbd2/secret",
        "mysecretd",
    }


def test_the_report_and_sql_show_it(fitted: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = fitted
    succeed("sql", folder / "trace", "select count(*) as n from fidelity_curve", "--json")
    succeed("report", folder / "trace")
    page = (folder / "trace" / "report.html").read_text()
    assert 'id="figure-fidelity-curve"' in page
    assert "tracekit fit trace -o" in page or "tracekit fit trace --output" in page


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
def test_fio_takes_the_job_of_the_profile(fitted: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = fitted
    job = folder / "job.fio"
    succeed("generate", folder / "found.toml", "--format", "fio", "-o", job)
    command = ["fio", f"--filename={folder / 'file'}", "--parse-only", str(job)]
    parsed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert parsed.stdout + parsed.stderr == ""
    zones = [line for line in job.read_text().splitlines() if "zoned:" in line]
    assert zones
    for line in zones:
        parts = [part.split("/") for part in line.partition("zoned:")[2].split(":")]
        assert [sum(map(int, column)) for column in zip(*parts, strict=True)] == [100, 100]


def test_distances_between_samples_are_scipys() -> None:
    random = np.random.default_rng(6)
    one, other = random.exponential(2, 500).round(1), random.exponential(3, 700).round(1)
    largest, mean = compared(one, other)
    assert largest == pytest.approx(stats.ks_2samp(one, other).statistic)
    assert mean == pytest.approx(stats.wasserstein_distance(one, other))
    assert compared(one, one) == (0, 0)


ONE = {"queue_ns": 0, "sector": 2048, "role": "fs"}
FLUSH = {"operation": "flush", "length_bytes": 0, "is_preflush": True}


@pytest.mark.parametrize(
    "rows",
    [
        [ONE],
        [ONE, {**ONE, "queue_ns": 0}],
        [{"queue_ns": n, **FLUSH} for n in (0, 5, 9)],
        [{**ONE, "queue_ns": 1000 * n, "process": None} for n in range(300)],
        [{**ONE, "queue_ns": n, "sector": 2048 + 8 * n} for n in range(50)],
        [{**ONE, "queue_ns": n, "length_bytes": 1000, "sector": 3} for n in range(5)],
    ],
    ids=["one", "two at a time", "flushes", "no names", "one a ns", "part of a sector"],
)
def test_odd_traces_have_a_profile(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    folder = trace(tmp_path / "trace", rows)
    result = succeed("fit", folder.path, "-o", tmp_path / "out.toml", "--json")
    told = json.loads(result.output)
    assert told["requests"] == len(rows)
    # THEN no number is without meaning, and the profile makes as many requests again
    assert "NaN" not in result.output
    assert "Infinity" not in result.output
    assert read_profile(tmp_path / "out.toml").streams


def test_what_cannot_be_told_is_counted(tmp_path: Path) -> None:
    rows = [ONE, {**ONE, "operation": "discard"}, {**ONE, "queue_ns": 7, "length_bytes": 0},
            {**ONE, "queue_ns": 8}, {**ONE, "queue_ns": 9}]  # fmt: skip
    folder = trace(tmp_path / "trace", rows)
    asked = ("fit", folder.path, "-o", tmp_path / "out.toml", "--json")
    told = json.loads(invoke(*asked, "--limit", "2").output)
    assert told["left_out"] == {"operation": 1, "empty": 1, "beyond the limit": 1} or told[
        "left_out"
    ] == {"operation": 1, "beyond the limit": 2}
    assert "exists already" in str(invoke(*asked).exception)
    # AND a folder is no place for a profile, which the hint names one in
    for more in ((), ("--force",)):
        refused = invoke("fit", folder.path, "-o", tmp_path, *more).exception
        assert str(refused) == f"{tmp_path} is a folder, not a file"
        assert getattr(refused, "hint", "") == f"write to {tmp_path / 'trace.toml'}"
    succeed(*asked, "--force")


def test_nothing_to_fit_is_said(tmp_path: Path) -> None:
    folder = trace(tmp_path / "trace", [{**ONE, "operation": "discard"}])
    result = invoke("fit", folder.path, "-o", tmp_path / "out.toml")
    assert "there is no read, write or flush" in str(result.exception)
    assert not (tmp_path / "out.toml").exists()
