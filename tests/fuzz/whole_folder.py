"""A small trace folder with the results of every stage, and files beside it to be left alone.

The folder is packed, because all stages together take half a minute; this makes it again, as is
needed when tables or results get another form:

python -m tests.fuzz.whole_folder
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

from tests.fuzz import corpus
from tests.fuzz.hostile import MARK, OUTSIDE, files_of, write_completions
from tests.replay_files import captured
from tests.simulate.memory_models import some_accesses, with_accesses
from tests.traces import Row, disk, partition, write_folder
from tracekit.errors import BudgetError
from tracekit.store import TraceFolder, write_json

NAME = "folders"
ROWS = 240
DEVICE = (
    "--device", "ssd-emlc", "--size", "8MiB", "--precondition", "20", "--writes", "20", "--reads",
    "20", "--sizes", "4", "--flushes", "4", "--surface", "10", "--write-percents", "0,100",
    "--depths", "4",
)  # fmt: skip
STAGES: tuple[tuple[str, ...], ...] = (
    ("classify", "trace"),
    ("analyze", "trace"),
    ("recommend", "trace"),
    ("simulate", "tiers", "trace"),
    ("simulate", "cache", "trace"),
    ("simulate", "buffer", "trace"),
    ("simulate", "sensitivity", "trace"),
    ("simulate", "endurance", "trace"),
    ("replay", "trace", "--engine", "null", "--pace", "fast", "--name", "base"),
    ("replay", "trace", "--engine", "null", "--pace", "fast", "--name", "again"),
    ("replay", "trace", "--engine", "null", "--pace", "fast"),
    ("compare", "trace", "base", "again"),
    ("characterize-device", "-o", "trace", *DEVICE),
    ("fit", "trace", "-o", "trace/profile.toml"),
    ("replay", "trace", "--files", "files", "--pace", "fast", "--name", "files"),
    ("verify-placement", "trace", "--repeat", "1", "--duration", "10ms"),
    ("counters", "-o", "trace", "--from", "outside/perf.json=5"),
    ("counters", "-o", "trace", "--from", "outside/perf.json=6", "--workload", "other"),
)
OUTSIDE_NAMES = (
    "made.img", "state.json", "unfinished.json", "completions.bin", "plan.bin", "summary.json",
    "trace.json", "requests.parquet", "device.json", "report.html", "profile.toml", "latest/x",
)  # fmt: skip


def make(place: Path) -> None:
    """Make `place`/trace with everything that the stages write."""
    rng = Random(1)  # noqa: S311 - no secret
    parts = [
        partition("sda", 1, "fs", range(2048, 60_000)),
        partition("sda", 2, "journal", range(100_000, 104_096)),
    ]
    rows = []
    for number in range(ROWS):
        queue_ns = number * 200_000
        is_journal = rng.random() < 0.3
        sector = 100_000 + 8 * (number % 400) if is_journal else 2048 + 8 * rng.randrange(2000)
        row: Row = {"queue_ns": queue_ns, "issue_ns": queue_ns + 2000, "sector": sector}
        row |= {"complete_ns": queue_ns + 2000 + rng.randrange(20_000, 300_000)}
        row |= {"operation": rng.choice(("read", "write")), "process": rng.choice("ab"), "cpu": 0}
        rows.append(row)
    clock = {"base_ns": 0, "duration_ns": ROWS * 200_000}
    source = {"format": "test", "files": [{"name": "a", "bytes": 1, "sha256": "ab" * 32}]}
    devices = [disk("sda", 1 << 20)]
    write_folder(
        place / "trace", rows, source=source, clock=clock, devices=devices, layout=parts,
        counts={"requests": ROWS, "records": ROWS},
    )  # fmt: skip
    ops = captured.trace(
        place / "operations",
        [{"path": "/d/a", "size_bytes": 4096}, {"path": "/d/b", "evidence": "absent"}],
        [{"operation": "create", "file_id": 1, "handle": 1}]
        + [{"operation": "stat", "file_id": 0} for _ in range(20)],
    )
    for name in ("files", "file_operations"):
        ops.table(name).rename(place / f"trace/{name}.parquet")
    shutil.rmtree(ops.path)
    with_accesses(TraceFolder(place / "trace"), some_accesses(ROWS), instructions=ROWS)
    for words in STAGES:
        command = [sys.executable, "-m", "tracekit", *words]
        ran = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        # So few requests have no profile that answers as they do.
        if ran.returncode and (words[0], ran.returncode) != ("fit", BudgetError.exit_code):
            raise RuntimeError(f"{' '.join(words)}: {ran.stderr}")


def make_outside(place: Path) -> None:
    """Make the folder of files that no command may change or show."""
    for name in OUTSIDE_NAMES:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(MARK)
    write_completions(place / "completions.bin")
    write_json(place / "state.json", {"mark": MARK})
    counted = {"counter-value": "5.0", "unit": "", "event": "cycles", "pcnt-running": 100.0}
    (place / "perf.json").write_text(json.dumps(counted) + "\n")


def unpack(place: Path) -> None:
    """Make the folders in which a case runs: the trace, and what is beside it."""
    for name in ("home", "tmp", "files", "out", "state", "cache", "config"):
        (place / name).mkdir(parents=True)
    make_outside(place / OUTSIDE)
    for name, data in corpus.read(NAME).items():
        file = place / "trace" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tracekit-fuzz-") as name:
        place = Path(name)
        (place / "files").mkdir()
        make_outside(place / OUTSIDE)
        make(place)
        trace = place / "trace"
        found = {str(file.relative_to(trace)): file.read_bytes() for file in files_of(trace)}
    corpus.archive(NAME).unlink(missing_ok=True)
    sys.stdout.write(f"{corpus.add(NAME, found)} files\n")


if __name__ == "__main__":
    main()
