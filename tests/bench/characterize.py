"""What characterizing finds, beside what is known and beside fio."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from tests.bench.harness import Bench, fio, needs
from tests.replay.program import run
from tracekit.device.characterize import CharacterizeOptions, characterize
from tracekit.device.steps import ALL, Amounts, Step, read_latencies, write_plan
from tracekit.device.target import TargetOptions, open_target

SIZE_BYTES = 256 << 20
LANES = """
[eight-lanes]
read_latency_us = 66.7
write_latency_us = 240.0
read_mib_s = 3242.0
write_mib_s = 500.0
flush_us = 400.0
fua_us = 300.0
parallelism = 8
price_per_gb = 6.0
"""
DEVICES = ("ssd-pcm", "ssd-emlc", "ssd-nvme", "eight-lanes")
CELLS = (
    *((0.0, 1, 4096), (1.0, 1, 4096), (0.0, 32, 4096), (1.0, 32, 4096), (0.5, 32, 4096)),
    *((0.0, 1, 65536), (1.0, 1, 65536), (0.0, 8, 65536), (1.0, 8, 65536)),
    *((0.0, 1, 1 << 20), (1.0, 1, 1 << 20)),
)
"""Share of writes, depth and length of the points at which fio makes the same requests."""
BYTES_OF_CELL = 256 << 20


def emulated(out: Bench, scale: float) -> None:
    """Print how far what was found is off what was emulated."""
    own = out.scratch / "own.toml"
    own.write_text(LANES)
    for name in DEVICES:
        with tempfile.TemporaryDirectory(dir=out.scratch) as place:
            target = TargetOptions(device=name, profiles=own)
            options = CharacterizeOptions(target=target, amounts=Amounts(scale=scale))
            found = characterize(Path(place) / name, options)["fit"]
        errors = {
            one["parameter"]: one["error_ratio"] for one in found if one["error_ratio"] is not None
        }
        out.row(f"{name}: error", **errors)


def by_fio(target: Path, step: Step) -> tuple[float, float]:
    """Return IOPS and mean latency in us of the step's requests, made by fio."""
    job, _ = fio(
        "--name=a", f"--filename={target}", "--direct=1", "--ioengine=io_uring",
        "--rw=randrw", f"--rwmixwrite={round(step.write_ratio * 100)}",
        f"--bs={step.length_bytes}", "--norandommap", f"--iodepth={step.depth}",
        f"--size={SIZE_BYTES}", f"--number_ios={step.requests}",
    )  # fmt: skip
    parts = [job["read"], job["write"]]
    count = sum(part["total_ios"] for part in parts)
    mean_ns = sum(part["lat_ns"]["mean"] * part["total_ios"] for part in parts) / count
    return count / max(part["runtime"] for part in parts) * 1e3, mean_ns / 1e3


def by_tracekit(target: Path, step: Step, *, plan: Path) -> tuple[float, float]:
    """Return the same of the step as a characterization runs it."""
    write_plan(plan, step, size_bytes=SIZE_BYTES, seed=(1, 1))
    ran = run(
        plan, "--pace", "fast", "--depth", str(step.depth), "--target", str(target),
        "--write-to", confirmation(target), "--no-calibration", "--quiet",
    )  # fmt: skip
    latencies, pace = read_latencies(ran.completions, step.requests, depth=step.depth)
    return latencies[ALL].count / pace.elapsed_ns * 1e9, latencies[ALL].mean / 1e3


def confirmation(target: Path) -> str:
    """Return what confirms that a target may be written: a file's path, or what a device shows."""
    if not target.is_block_device():
        return str(target)
    with tempfile.TemporaryDirectory() as place:
        found = open_target(TargetOptions(path=target), Path(place), made=None)
    return str(found.about["confirm_with"])


@contextmanager
def attached(file: Path) -> Iterator[Path]:
    """Make a loop device of a file, by direct I/O, and detach it at the end."""
    words = ["losetup", "--find", "--show", "--direct-io=on", str(file)]
    device = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    try:
        yield Path(device)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


def beside_fio(out: Bench, target: Path, requests: int, rounds: int) -> None:
    """Compare both by turns for each cell: IOPS and, of the same runs, the mean latency."""
    for write_ratio, depth, length in CELLS:
        count = min(requests, BYTES_OF_CELL // length)
        step = Step("surface", count, write_ratio, depth, length)
        latencies: dict[str, list[float]] = {"fio": [], "characterize": []}

        def iops(name: str, step: Step = step, kept: dict[str, list[float]] = latencies) -> float:
            plan = out.scratch / "step.plan"
            is_fio = name == "fio"
            rate, mean_us = by_fio(target, step) if is_fio else by_tracekit(target, step, plan=plan)
            kept[name].append(mean_us)
            return rate

        case = f"{write_ratio:.0%} writes, {length >> 10} KiB, depth {depth}"
        ways = {name: lambda name=name: iops(name) for name in latencies}
        out.compare(case, ways, rounds=rounds, unit="IOPS")
        out.show(case, latencies, unit="mean_us")


def bench_characterize(
    out: Bench, *, scale: float = 0.01, requests: int = 20_000, rounds: int = 5,
    place: Path | None = None, without_emulated: bool = False, loop: bool = False,
) -> None:  # fmt: skip
    """Emulated devices of three built-in profiles and one of eight lanes; then on one file.

    The same random reads and writes are made by fio and by the steps of a characterization, in
    turns; `place` is where the file lies, and with `loop` a loop device on it is measured.
    """
    if not without_emulated:
        emulated(out, scale)
    with out.part("fio"), tempfile.TemporaryDirectory(dir=place or out.scratch) as folder:
        needs("fio")
        target = Path(folder) / "target.img"
        with target.open("wb") as file:
            for _ in range(SIZE_BYTES >> 20):
                file.write(bytes(1 << 20))
        with attached(target) if loop else nullcontext(target) as device:
            beside_fio(out, device, requests, rounds)
