"""The block player: how exact and how fast it is on several engines, and fio beside it."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tests.bench.harness import MEMORY, Bench, fio, needs, needs_root, run, tracekit
from tests.replay import program
from tests.replay.disk import loop
from tests.replay.program import Ran, command, device, play, record, write_plan
from tracekit._native import program_path
from tracekit.plans import block_plan
from tracekit.plans.block_plan import READ, WRITE
from tracekit.replay.compiler import ROWS, Waits

SECOND_NS = 1_000_000_000
BLOCKS = 1 << 20
MIB = 512
COST_REQUESTS = 1_000_000
DEPTH = 32
COST_ROUNDS = 7
LOG = ("--write_lat_log=lat", "--log_offset=1")
# Study B's devices: name, service time and gap in ns, requests.
EMULATED = (
    ("PCM SSD, 6.7 us", 6_700, 20_000, 20_000),
    ("flash, 108 us", 108_000, 200_000, 20_000),
    ("disk, 5 ms", 5_000_000, 8_000_000, 500),
)
PLACES = 16_384
STORES = """set -e
for round in $(seq $ROUNDS); do
  tracekit-replay a.plan --engine dax --target $FOLDER/t --keep --pace fast > $OUT/$round.json
  ./store $FOLDER/t $COPIES > $OUT/$round.alone
  rm $FOLDER/t
done
"""
"""The engine comes first: the file that it has laid out and kept is the peer's too."""
JOBS = """\
[global]
filename={device}
direct=1
ioengine=psync
runtime={seconds}
time_based
size=512m
[reader]
rw=randread
bs=4k
thinktime=200
[writer]
rw=randwrite
bs=16k
thinktime=1000
fsync=8
"""
CLIENTS, THINK_NS = 4, 400_000


def played(plan: Path, **options: Any) -> Ran:
    """Run the program, which must end well, however long that takes."""
    ran = program.run(plan, timeout=None, **options)
    if ran.code != 0:
        raise SystemExit(ran.messages)
    return ran


def write_reads(path: Path, requests: int, gap_ns: int) -> None:
    """Write a plan of 4 KiB reads, one each `gap_ns`."""
    rows = np.zeros(requests, block_plan.RECORD)
    rows["intended_ns"] = np.arange(requests) * gap_ns
    rows["sector"] = np.arange(requests) * 7919 % BLOCKS * 8
    rows["length_sectors"] = 8
    write_plan(path, rows, needed_sectors=BLOCKS * 8)


def write_iolog(path: Path, requests: int, gap_ns: int) -> None:
    """Write the same requests for fio."""
    with path.open("w") as out:
        out.write("fio version 3 iolog\n0 null add\n0 null open\n")
        for number in range(requests):
            offset = number * 7919 % BLOCKS * 4096
            out.write(f"{number * gap_ns // 1000} null read {offset} 4096\n")
        out.write(f"{(requests - 1) * gap_ns // 1000} null close\n")


def cost_ns(plan: Path, requests: int, pace: str = "fast", **options: Any) -> float:
    """Return the ns of a request on the null engine, every completion logged."""
    ran = played(plan, engine="null", pace=pace, **options)
    return float(ran.summary["timing"]["elapsed_ns"]) / requests


def show_exactness(out: Bench, case: str, plan: Path, rounds: int) -> None:
    runs = [played(plan, engine="null").summary for _ in range(rounds)]
    names = ("p50", "p99", "p99_9", "max", "mean")
    errors = {f"{at}_us": median(r["issue_error"][f"{at}_ns"] for r in runs) / 1e3 for at in names}
    out.row(f"{case}: issue error", **errors)
    timing = [one["timing"] for one in runs]
    off = [one["duration_error_ns"] for one in timing]
    drift = {"drift_ns": median(one["drift_ns"] for one in timing)}
    peak = {"peak_mib": median(one["peak_memory_bytes"] for one in runs) / 2**20}
    out.row(f"{case}: duration", error_ns=median(off), worst_ns=max(map(abs, off)), **drift, **peak)


def show_fio(out: Bench, case: str, iolog: Path, *, intended_s: float, rounds: int) -> None:
    """Print the duration and memory of fio, which keeps no record of when a request was due."""
    words = ("--name=replay", "--ioengine=null", f"--read_iolog={iolog}", "--thread")
    took = [fio(*words) for _ in range(rounds)]
    seconds = median(job["read"]["runtime"] / 1000 for job, _ in took)
    peak = {"peak_mib": median(used.peak_mib for _, used in took)}
    of_trace = {"of_trace": seconds / intended_s}
    out.row(f"{case}: fio", error_ns=(seconds - intended_s) * 1e9, **of_trace, **peak)


def bench_replay(
    out: Bench, *, requests: tuple[int, ...] = (10_000, 100_000), rate: int = 20_000,
    rounds: int = 3,
) -> None:  # fmt: skip
    """Reads at a fixed rate on the null engine, so that only the replayer is measured.

    fio replays the same requests (`--read_iolog`, version 3, null engine) in the same run. Its log
    has microseconds: rates that divide a million are exact.
    """
    gap_ns = SECOND_NS // rate
    for count in requests:
        name = f"{count}-{gap_ns}"
        plan, iolog = (
            out.input(f"{name}.{form}", partial(write, requests=count, gap_ns=gap_ns))
            for form, write in (("plan", write_reads), ("iolog", write_iolog))
        )
        case = f"{count:,} at {rate:,}/s"
        show_exactness(out, case, plan, rounds)
        costs = [cost_ns(plan, count) for _ in range(rounds)]
        out.row(f"{case}: as fast as possible", ns_a_request=median(costs), least=min(costs))
        with out.part("fio"):
            intended_s = (count - 1) * gap_ns / SECOND_NS
            show_fio(out, case, iolog, intended_s=intended_s, rounds=rounds)


def write_file(path: Path) -> None:
    """Make a file without holes, so that reads reach the device."""
    block = np.random.default_rng(1).bytes(1 << 20)
    with path.open("wb") as out:
        for _ in range(MIB):
            out.write(block)
        os.fsync(out.fileno())


def beside_fio(out: Bench, case: str, plan: Path, target: Path, *, rounds: int, count: int) -> None:
    """Compare with fio without a log of its own and with one: requests a second."""
    needs("fio")
    words = [f"--filename={target}", "--direct=1", "--ioengine=io_uring", "--rw=randread"]
    words += ["--bs=4k", f"--iodepth={DEPTH}", "--fixedbufs", "--registerfiles", "--readonly"]
    words += ["--norandommap", f"--size={MIB}m", f"--io_size={count * 4096}"]

    def by_fio(*more: str) -> float:
        return float(fio("--name=a", *words, *more, cwd=out.scratch)[0]["read"]["iops"])

    def ours() -> float:
        options = {"engine": "io_uring", "pace": "fast", "depth": DEPTH, "direct": "on"}
        ran = played(plan, target=target, no_calibration=True, **options)
        return float(ran.summary["timing"]["requests_per_second"])

    ways: dict[str, Callable[[], float]] = {
        "fio": by_fio,
        "fio that logs": lambda: by_fio(*LOG),
        "tracekit, which logs": ours,
    }
    rates = out.compare(case, ways, rounds=rounds, unit="IOPS")
    pairs = zip(rates["tracekit, which logs"], rates["fio that logs"], strict=True)
    out.row(f"{case}: to fio that logs", ratio=median(own / peer for own, peer in pairs))


def bench_fast(
    out: Bench, *, requests: int = 50_000, rounds: int = 25, place: Path | None = None
) -> None:
    """Random reads of 4 KiB, 32 in flight, by io_uring with registered files and O_DIRECT.

    On a loop device over a file in memory (root) and on a file of `place`. This program logs every
    completion. Many short rounds by turns.
    """
    sectors = np.random.default_rng(2).integers(0, MIB << 20 >> 12, requests) * 8
    rows = [record(READ, int(sector), 8) for sector in sectors]
    plan = write_plan(out.scratch / "a.plan", rows, needed_sectors=MIB << 20 >> 9)
    count = COST_REQUESTS // requests * requests
    repeated = write_plan(out.scratch / "b.plan", rows * (count // requests))
    for name, pace in (("timed", "trace"), ("as fast as possible", "fast")):
        took = [cost_ns(repeated, count, pace, no_calibration=True) for _ in range(COST_ROUNDS)]
        out.row(f"{name}, null engine", ns_a_request=median(took), least=min(took))
    with tempfile.TemporaryDirectory(dir=MEMORY) as memory, out.part("loop device"):
        needs_root()
        write_file(Path(memory) / "memory")
        with loop(Path(memory) / "memory") as disk:
            beside_fio(out, "loop device", plan, disk, rounds=rounds, count=requests)
    with tempfile.TemporaryDirectory(dir=place or out.scratch) as folder, out.part("file"):
        write_file(Path(folder) / "target")
        beside_fio(out, "file", plan, Path(folder) / "target", rounds=rounds, count=requests)


def own_cost(plan: Path, program: Path, depth: int) -> dict[str, float]:
    """Return ns a request: processor time of all threads, and from the first to the last."""
    line = command(plan, engine="null", pace="fast", depth=depth, no_calibration=True)
    ran = play(plan, [str(program), *line[1:]], timeout=None)
    used, count = ran.summary["fidelity"], ran.counts["done"]
    processor_ns = used["cpu_user_ns"] + used["cpu_system_ns"]
    elapsed_ns = ran.summary["timing"]["elapsed_ns"]
    return {"processor_ns": processor_ns / count, "elapsed_ns": elapsed_ns / count}


def bench_cost(
    out: Bench, *, requests: int = COST_REQUESTS, rounds: int = 5,
    kib: tuple[int, ...] = (4, 1024, 4096), depths: tuple[int, ...] = (1, 32, 1024, 4096),
    other: Path | None = None,
) -> None:  # fmt: skip
    """Own cost by size and depth: reads and writes in turn on the null engine, each logged.

    `other` is a program of another version, which runs by turns. A row has the medians, and the
    least, which busy neighbours do not raise.
    """
    programs = {"": program_path(), **({"other: ": other} if other else {})}
    for size in kib:
        rows = np.zeros(requests, block_plan.RECORD)
        rows["sector"] = np.arange(requests) * 7919 % BLOCKS * size * 2
        rows["length_sectors"], rows["operation"] = size * 2, np.arange(requests) % 2
        plan = write_plan(out.scratch / "cost.plan", rows)
        for depth in depths:
            took: dict[str, list[dict[str, float]]] = {name: [] for name in programs}
            for _ in range(rounds):
                for name, path in programs.items():
                    took[name].append(own_cost(plan, path, depth))
            for name, runs in took.items():
                keys = {key: [one[key] for one in runs] for key in runs[0]}
                values = {key: median(each) for key, each in keys.items()}
                least = {f"least_{key}": min(each) for key, each in keys.items()}
                out.row(f"{name}{size} KiB, depth {depth}", **values, **least)


def bench_rate(
    out: Bench, *, requests: int = 2_000_000, rate: int = 1_000_000, rounds: int = 5,
    submitters: tuple[int, ...] = (1, 2),
) -> None:  # fmt: skip
    """Random reads at a high rate on the null engine, timed, by one and by several submitters."""
    rows = np.zeros(requests, block_plan.RECORD)
    rows["intended_ns"] = np.arange(requests) * (SECOND_NS // rate)
    rows["sector"] = np.random.default_rng(1).integers(0, 1 << 24, requests) * 8
    rows["length_sectors"] = 8
    plan = write_plan(out.scratch / "rate.plan", rows)
    for _ in range(rounds):
        for count in submitters:
            told = played(plan, engine="null", submitters=count, no_calibration=True).summary
            error, used = told["issue_error"], told["fidelity"]
            errors = {f"{at}_us": error[f"{at}_ns"] / 1e3 for at in ("p50", "p99", "max")}
            processor_ns = (used["cpu_user_ns"] + used["cpu_system_ns"]) / requests
            out.row(f"{count} of {rate:,}/s", **errors, processor_ns=processor_ns)


def bench_emulated(out: Bench, *, divisor: int = 1) -> None:
    """Read on four lanes, further apart than the device is slow: no request waits for another.

    A row has the error in ns and what the program says of it, whether that is within the budget,
    the share of a processor, and the time that was spun before requests were due.
    """
    random = np.random.default_rng(1)
    for name, service_ns, gap_ns, requests in EMULATED:
        sectors = random.integers(0, 1 << 20, requests // divisor) * 8
        rows = [record(READ, int(s), 8, at_ns=i * gap_ns) for i, s in enumerate(sectors)]
        plan = write_plan(out.scratch / "a.plan", rows)
        spec = device(read_setup_ns=service_ns, read_bytes_s=4_096_000_000_000, lanes=4)
        ran = played(plan, engine="emulated", emulate=spec)
        done = ran.rows()
        error = (done["complete_ns"] - done["submit_ns"]).astype(np.int64) - service_ns - 1
        p50, p99 = map(float, np.percentile(error, [50, 99]))
        timing, cost = ran.summary["timing"], ran.summary["fidelity"]
        used = (cost["cpu_user_ns"] + cost["cpu_system_ns"]) / timing["elapsed_ns"]
        errors = {"mean_ns": float(error.mean()), "p50_ns": p50, "p99_ns": p99}
        said = ran.summary["emulation"]["devices"][0]
        errors |= {"said_mean_ns": said["lateness"]["mean_ns"]}
        errors |= {"within": float(said["is_within_budget"])}
        out.row(name, **errors, processor=used, spun_ns=ran.summary["clock"]["spin_lead_ns"])


def run_here(place: Path, folder: Path, values: dict[str, str]) -> Path:
    """Run the rounds on this machine, on a file of `folder`, and return where the results are."""
    out = place / "out"
    out.mkdir()
    with tempfile.TemporaryDirectory(dir=folder) as data:
        path = f"{program_path().parent}:{os.environ['PATH']}"
        values = {**values, "PATH": path, "FOLDER": data, "OUT": str(out)}
        subprocess.run(["sh", "-c", STORES], cwd=place / "share", env=values, check=True)
    return out


def run_in_lab(out: Bench, place: Path, values: dict[str, str], *, is_exact: bool) -> Path:
    """Run the rounds in a guest, on a file of its DAX file system."""
    words = " ".join(f"{name}={value}" for name, value in values.items())
    script = f"{words} FOLDER=$LAB_DAX OUT=$LAB_OUT\n{STORES}"
    command = ["lab", "run", "--pmem", "256MiB", *(["--exact"] if is_exact else [])]
    command += ["--share", str(place / "share"), "-o", str(place / "out"), "--json"]
    ran = tracekit(*command, "--", "sh", "-c", script)
    out.note(f"in a guest by {json.loads(ran.output)['accelerator']}")
    return place / "out/files"


def show_stores(out: Bench, results: Path, rounds: int, copies: int) -> None:
    """Print the peer's time, the service time and the time a request: medians of the rounds."""
    numbers = range(1, rounds + 1)
    summaries = [json.loads((results / f"{number}.json").read_text()) for number in numbers]
    alone = [float((results / f"{number}.alone").read_text()) for number in numbers]
    service = [one["operations"][0]["service"] for one in summaries]
    measured = {
        "copy and fence alone": alone,
        "service, p50": [float(one["p50_ns"]) for one in service],
        "service, mean": [float(one["mean_ns"]) for one in service],
        "all": [one["timing"]["elapsed_ns"] / copies for one in summaries],
    }
    base = median(alone)
    for name, values in measured.items():
        ns = median(values)
        spread = {"least": min(values), "most": max(values)}
        out.row(name, ns=ns, **spread, added_ns=ns - base, ratio=ns / base)
    out.note(f"a reading of the clock: {summaries[0]['clock']['read_ns']} ns")
    features = summaries[0]["engine"]["features"].items()
    out.note(f"by {', '.join(name for name, is_used in features if is_used)}")


def bench_dax(
    out: Bench, *, copies: int = 200_000, rounds: int = 7, place: Path | None = None,
    lab: bool = False, exact: bool = False,
) -> None:  # fmt: skip
    """Beside it, in the same run, a loop of copies and fences on a mapping of the same file.

    The file is in `place` (/dev/shm), with `lab` on the DAX file system of a guest of `tracekit
    lab`; `exact` takes 2 ns for each of the guest's instructions.
    """
    store = out.compiled("store.c", "-static")
    values = {"ROUNDS": str(rounds), "COPIES": str(copies)}
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        (here / "share").mkdir()
        shutil.move(store, here / "share/store")
        rows = [record(WRITE, 8 * (n * 7919 % PLACES), 8) for n in range(copies)]
        write_plan(here / "share/a.plan", rows)
        if lab:
            results = run_in_lab(out, here, values, is_exact=exact)
        else:
            results = run_here(here, place or MEMORY, values)
        show_stores(out, results, rounds, copies)


def closed_emulated(out: Bench, requests: int, rounds: int) -> None:
    """Print the ratio for a device whose service times are always the same.

    Requests of four clients with think times are replayed as they come, what was seen is the trace,
    and that is replayed in a closed loop.
    """
    random = np.random.default_rng(1)
    # Each client's requests as an open loop would have them; the run says how long they take.
    gaps = random.exponential(THINK_NS, (CLIENTS, requests // CLIENTS))
    at = np.sort(np.cumsum(gaps, axis=1).ravel()).astype(int)
    rows = [
        record(int(random.choice([READ, WRITE])), 8 * int(random.integers(0, 1 << 16)), 8, at_ns=ns)
        for ns in at.tolist()
    ]
    times = {"read_setup_ns": 100_000, "write_setup_ns": 300_000, "flush_ns": 1_000_000}
    rates = {"read_bytes_s": 500_000_000, "write_bytes_s": 300_000_000}
    engine = {"engine": "emulated", "emulate": device(**times, **rates, lanes=2)}
    seen = played(write_plan(out.scratch / "open.plan", rows), **engine).by_id()
    waits = np.zeros(len(seen), ROWS)
    waits["time_ns"], waits["complete_ns"] = seen["submit_ns"], seen["complete_ns"]
    after, think = Waits().add(waits)
    again = [
        record(row[4], row[1], row[3], at_ns=int(ns), after=int(steps), think_ns=int(gap))
        for row, ns, steps, gap in zip(rows, seen["submit_ns"], after, think, strict=True)
    ]
    plan = write_plan(out.scratch / "closed.plan", again)
    whole = int(seen["submit_ns"][-1] - seen["submit_ns"][0])
    for _ in range(rounds):
        timing = played(plan, pace="closed", **engine).summary["timing"]
        out.row("emulated", requests=len(rows), of_trace=timing["actual_duration_ns"] / whole)


def closed_real(out: Bench, disk: str, seconds: int, rounds: int) -> None:
    """Trace the device and replay there."""
    job, report = out.scratch / "job.fio", out.scratch / "fio.json"
    job.write_text(JOBS.format(device=disk, seconds=seconds))
    command = ("fio", job, f"--output={report}", "--output-format=json")
    capture, trace = out.scratch / "capture", out.scratch / "trace"
    shutil.rmtree(capture, ignore_errors=True)
    tracekit("capture", disk, "-o", capture, "--", *command)
    traced = requests_of(report)
    tracekit("parse", capture, "-o", trace, "--force")
    words = ("replay", trace, "--json", "--target", disk)
    plan = json.loads(tracekit(*words, "--dry-run").output)
    confirmed = (*words, "--write-to", plan["targets"][0]["confirm_with"])
    for _ in range(rounds):
        again: dict[str, Any] = json.loads(tracekit(*confirmed, "--pace", "closed").output)
        ratio = again["timing"]["actual_duration_ns"] / again["plan"]["duration_ns"]
        run(command)
        ratios = {"of_trace": ratio, "fio_again": traced / requests_of(report)}
        wake_up = {"wake_up_us": again["clock"]["wake_up_ns"] / 1000}
        out.row("loop device", requests=again["counts"]["done"], **ratios, **wake_up)


def requests_of(report: Path) -> int:
    """Return how many reads and writes fio did."""
    jobs = json.loads(report.read_text())["jobs"]
    return sum(job[kind]["total_ios"] for job in jobs for kind in ("read", "write"))


def bench_closed(out: Bench, *, requests: int = 20_000, seconds: int = 8, rounds: int = 5) -> None:
    """Does a closed loop on the device of the trace take as long? Emulated first, then for real.

    The second needs root, a loop device and fio: two processes with think times, one of them with
    fsyncs, are traced, and the trace is replayed there. The device's file has data everywhere, as a
    hole is read without the disk. Beside each round fio runs again, so that one sees how far the
    device is from itself.
    """
    closed_emulated(out, requests, rounds)
    with out.part("loop device"), tempfile.TemporaryDirectory(dir=out.scratch) as place:
        needs_root()
        needs("fio")
        disk = Path(place) / "disk"
        run(["dd", "if=/dev/urandom", f"of={disk}", "bs=1M", "count=512", "oflag=direct"])
        with loop(disk, "--direct-io=on") as target:
            closed_real(out, str(target), seconds, rounds)
