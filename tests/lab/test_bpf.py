"""The source bpf on stacked devices in a guest, whose kernel is another: as the kernel's tracer."""

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.lab.guests import run_script, share_modules, share_tracekit, with_packages
from tracekit._native import program_path
from tracekit.capture import bpf
from tracekit.lab.image import run_tool
from tracekit.readers.blktrace import parse

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab-bpf")]
MODULES = ("dm_mod", "dm_crypt", "crypto_null", "raid1")
PACKAGES = ("libstdc++6", "dmsetup", "mdadm")
STACKS = ("linear", "crypt", "mirror")
Ran = tuple[dict[str, Any], Path]


def share_program(folder: Path) -> None:
    """Put the BPF loader there with its libraries."""
    folder.mkdir()
    program = program_path(bpf.PROGRAM)
    shutil.copy(program, folder / "program")
    for path in re.findall(r"(/\S+) \(0x", run_tool("ldd", str(program))):
        library = Path(path)
        shutil.copy(library, folder / ("ld.so" if library.name.startswith("ld-") else library.name))


@pytest.fixture(scope="module")
def ran(place: Path) -> Ran:
    """Return what the guest's captures told, and the folder of what they kept."""
    if not bpf.is_built():
        pytest.skip("built without BPF: clang, libbpf or libelf was missing")
    share = place / "share"
    share_tracekit(share, "mapped.py")
    share_modules(share, *MODULES, packages=PACKAGES)
    share_program(share / "bpf")
    options = (*with_packages(PACKAGES), "--memory", "1536MiB")
    files = run_script(place, "python3 mapped.py", *options)
    return json.loads((place / "stdout").read_text()), files


@pytest.mark.parametrize("stack", STACKS)
def test_requests_of_stacked_devices_are_those_of_the_tracer(
    ran: Ran, tmp_path: Path, stack: str
) -> None:
    # GIVEN the same load, captured of a stacked device and of its disks by BPF and by the tracer
    tables, losses = {}, {}
    for source in ("bpf", "tracefs-blk"):
        found = ran[0][f"{stack}-{source}"]
        assert (found["status"], found["stderr"]) == (0, "")
        folder, _ = parse([ran[1] / f"{stack}-{source}"], tmp_path / source)
        losses[source] = folder.content["loss"]
        rows = pq.read_table(folder.table("requests")).to_pylist()
        names = ("device", "operation", "sector", "length_bytes", "is_fua", "is_preflush")
        tables[source] = Counter(
            tuple(row[name] for name in names) for row in rows if row["process"] == "dd"
        )
    # THEN nothing is lost by BPF, and the kernel's own counters agree
    lost = losses["bpf"]
    assert (lost["sequence_gaps"], lost["dropped"], lost["unseen"]["at_most"]) == (0, 0, 0)
    devices = Counter(device for device, *_ in tables["bpf"].elements())
    assert min(devices.values()) > 20
    assert len(devices) == (2 if stack == "crypt" else 3)
    # AND both have the same requests, but for flushes that lie before the second disk as device
    # mapper moves them, which the tracer leaves out, and counts as not seen
    assert tables["tracefs-blk"] - tables["bpf"] == Counter()
    more = tables["bpf"] - tables["tracefs-blk"]
    assert more.total() == losses["tracefs-blk"]["unseen"]["at_most"]
    assert set(more) <= {("second", "flush", 0, 0, False, True)}
    assert (stack == "linear") == bool(more)
