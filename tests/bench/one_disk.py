"""What the placement model predicts, and what the program's emulated devices take at depth 1."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.bench.harness import Bench, Failed
from tests.replay.timeless import Devices
from tests.replay.trace import compiled
from tracekit._native.placement import PLACED_ROLES
from tracekit.classify import ClassifyOptions, classify
from tracekit.devices import DevicePair, load_profiles
from tracekit.model.block_orders import read_blocks
from tracekit.model.gain_range import placement_ps
from tracekit.model.placement import ChargedTrace
from tracekit.readers.blktrace import parse
from tracekit.replay.placed import place
from tracekit.replay.routes import DEFAULT, NVM
from tracekit.store import TraceFolder
from tracekit.tables import ROLES

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


class Sample:
    """A sample with the hottest of each role's blocks on NVM: its plans, alone and placed."""

    def __init__(self, folder: TraceFolder, *, share: int, level: str, coverage: str) -> None:
        self._touched = read_blocks(folder.table("blocks"))
        counts = zip(ROLES[:PLACED_ROLES], self._touched.role_blocks().tolist(), strict=False)
        self._blocks = {role: count // share for role, count in counts}
        self._requests = folder.table("requests")
        self._level, self._coverage = level, coverage
        placed = place(self._touched, coverage, blocks=self._blocks)
        self._plans = [compiled(folder, level=level, placed=one) for one in (None, placed)]
        self.cut_requests = self._plans[1][1].cut_requests

    def predicted_ns(self, pair: DevicePair) -> list[float]:
        """Return what the model says, of the base device alone and as placed."""
        trace = ChargedTrace(self._requests, self._touched, pair, self._level == "issued")
        return [ps / 1000 for ps in placement_ps(trace, self._blocks, coverage=self._coverage)]

    def emulated_ns(self, pair: DevicePair, program: Devices) -> list[int]:
        """Return what the program's own devices take for both at depth 1."""
        devices = {DEFAULT: pair.base, NVM: pair.nvm}
        return [program.elapsed_ns(*plan, devices) for plan in self._plans]


def made(place: Path, *, sample: str) -> None:
    """Parse and classify a sample."""
    folder, _ = parse([SAMPLES / sample], place)
    classify(folder, ClassifyOptions())


def bench_one_disk(out: Bench, *, samples: str = "", devices: str = "") -> None:
    """Place a quarter of each role's blocks of each sample, on each built-in device, at depth 1.

    No request is timed: the devices' own code says what each takes. Both options are names with
    commas between them; all without.
    """
    program = Devices(out.scratch)
    known = load_profiles()
    every = sorted({path.parent.name for path in SAMPLES.glob("*/*.blktrace.*")})
    for sample in samples.split(",") if samples else every:
        folder = TraceFolder(out.input(f"sample-{sample}", partial(made, sample=sample)))
        one = Sample(folder, share=4, level="issued", coverage="hottest")
        for base, nvm in pairs():
            if devices and not {base, nvm} <= {BASE, FAST, *devices.split(",")}:
                continue
            pair = DevicePair(known[base], known[nvm])
            predicted, emulated = one.predicted_ns(pair), one.emulated_ns(pair, program)
            apart = max(
                (took / told - 1 for took, told in zip(emulated, predicted, strict=True)), key=abs
            )
            seconds = {"base_s": emulated[0], "predicted_s": predicted[1], "placed_s": emulated[1]}
            figures = {name: ns / 1e9 for name, ns in seconds.items()}
            out.row(f"{sample}, {base} + {nvm}", **figures, apart=apart)
            if abs(apart) > LIMIT:
                raise Failed(f"{sample}, {base} + {nvm}: model and emulation are {apart:.1%} apart")
