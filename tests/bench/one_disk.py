"""What the placement model predicts, and what the program's emulated devices take at depth 1."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.bench.harness import Bench, Failed
from tests.replay.timeless import Devices
from tests.replay.trace import compiled
from tracekit.classify import ClassifyOptions, classify
from tracekit.devices import load_profiles
from tracekit.model.answer import Recommendation, charged_trace
from tracekit.model.gain_range import placement_ps
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.readers.blktrace import parse
from tracekit.replay.placed import place
from tracekit.replay.routes import DEFAULT, NVM
from tracekit.store import TraceFolder

SAMPLES = Path(__file__).resolve().parents[2] / "sample-traces"
LIMIT = 0.02
BASE, FAST = "hdd-7200", "dax-pcm"


def pairs() -> Iterator[tuple[str, str]]:
    """Yield every built-in device as the base, and as the NVM, beside the default one.

    Not as NVM a disk whose head moves, which the model charges its mean positions.
    """
    known = load_profiles()
    yield from ((name, FAST) for name in known)
    yield from ((BASE, name) for name in known if name != FAST and not known[name].has_head)


def both_ns(
    folder: TraceFolder, advice: Recommendation, program: Devices
) -> list[tuple[float, int]]:
    """Return predicted and emulated time, of the base device alone and of the answer."""
    trace = charged_trace(folder, advice)
    base, nvm = advice.profiles
    blocks = advice.answer.blocks
    predicted = placement_ps(trace, blocks, coverage=advice.coverage)
    alone, report = compiled(folder, level=advice.level)
    found = [(predicted[0] / 1000, program.elapsed_ns(alone, report, {DEFAULT: base}))]
    if any(blocks.values()):
        placed = place(trace.touched, advice.coverage, blocks=blocks)
        records, report = compiled(folder, level=advice.level, placed=placed)
        devices = {DEFAULT: base, NVM: nvm}
        found.append((predicted[1] / 1000, program.elapsed_ns(records, report, devices)))
    return found


def made(place: Path, *, sample: str) -> None:
    """Parse and classify a sample."""
    folder, _ = parse([SAMPLES / sample], place)
    classify(folder, ClassifyOptions())


def bench_one_disk(out: Bench, *, samples: str = "", devices: str = "") -> None:
    """Recommend for each sample on each built-in device, and serve the plans at depth 1.

    No request is timed: the devices' own code says what each takes. Both options are names with
    commas between them; all without.
    """
    program = Devices(out.scratch)
    every = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir())
    for sample in samples.split(",") if samples else every:
        folder = TraceFolder(out.input(f"sample-{sample}", partial(made, sample=sample)))
        for base, nvm in pairs():
            if devices and not {base, nvm} - {BASE, FAST} <= {*devices.split(",")}:
                continue
            advice = recommend(folder, RecommendOptions(base=base, nvm=nvm))
            found = both_ns(folder, advice, program)
            apart = max((emulated / told - 1 for told, emulated in found), key=abs)
            told, emulated = found[-1]
            out.row(
                f"{sample}, {base} + {nvm}",
                base_s=found[0][1] / 1e9,
                predicted_s=told / 1e9,
                emulated_s=emulated / 1e9,
                apart=apart,
            )
            if abs(apart) > LIMIT:
                raise Failed(f"{sample}, {base} + {nvm}: model and emulation are {apart:.1%} apart")
