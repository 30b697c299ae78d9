"""The times that recommend predicts, and those measured when its script was run in a guest."""

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import tomli_w

from tests.command_line import succeed
from tests.lab.guests import run_script, share_modules, skip_unless_guests_run, with_packages
from tracekit.model.block_orders import read_blocks
from tracekit.model.timed_requests import read_sample
from tracekit.store import TraceFolder

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab-carry-out")]
IN_GUEST = Path(__file__).parent / "in_guest"
MODULES = ("dm_mirror", "dm_cache_smq", "dm_writecache")
PACKAGES = ("lvm2", "thin-provisioning-tools")
GUEST = ("--exact", "--memory", "1GiB", "--timeout", "3000", *with_packages(PACKAGES))
CLOSE = 0.1
"""How far from the predicted ones the times saved and left may be."""


@dataclass(frozen=True)
class Answer:
    """What is asked of the trace, and how the script is run."""

    name: str
    asked: tuple[str, ...]
    depth: int = 1
    """Requests that the NVM serves at once; the model has them one after the other."""
    cache: str = ""
    """As CACHE of the script; the prediction is that of the rival."""


DIRECTORY = ("--unit", "directory", "--capacity", "16MiB", "--files", "{files}")
CACHE = ("--unit", "block", "--capacity", "16MiB")
RIVALS = {"writecache": ("dm-writecache", "back"), "writeback": ("dm-cache", "back")}
LAYOUTS: dict[tuple[str, str], tuple[Answer, ...]] = {
    ("files", "device"): (
        Answer("journal", ("--unit", "role", "--capacity", "8MiB")),
        Answer("directory", DIRECTORY),
        Answer("parallel", DIRECTORY, depth=64),
    ),
    ("volume", "mapped"): (Answer("extents", ("--unit", "extent=1MiB", "--capacity", "8MiB")),),
    ("synced", "mapped"): (Answer("writecache", CACHE, cache="writecache"),),
    ("swap", "device"): (Answer("swap", ("--unit", "role", "--capacity", "112MiB")),),
}
"""By what is traced, and where the NVM is measured: alone, or as a logical volume."""


def parsed(place: Path, name: str, *, run: str) -> tuple[Path, float]:
    """Return the folder of a capture, and how long requests were in flight, in ms."""
    folder = place / f"{run}-{name}"
    succeed("parse", place / run / "files" / name, "-o", folder)
    succeed("classify", folder)
    store = TraceFolder(folder)
    names = read_blocks(store.require("blocks", made_by="classify")).device_names
    sample = read_sample(store.require("requests", made_by="parse"), names)
    return folder, sample.busy_ns / 1e6


def profile_of(place: Path, name: str) -> Path:
    """Fit a profile to the trace of the NVM, and return its file."""
    folder, _ = parsed(place, name, run="before")
    succeed("recommend", folder, "--nvm", "ssd-optane", "--capacity", "1MiB")
    fitted = json.loads((folder / "recommendation.json").read_text())["profiles"][0]
    values = {name: value for name, value in fitted.items() if value not in (None, [])}
    for one in ("name", "key"):
        values.pop(one, None)
    file = place / "nvm.toml"
    file.write_text(tomli_w.dumps({"lab-nvm": values}))
    return file


def predicted(folder: Path, one: Answer) -> tuple[float, float]:
    """Return the I/O time before and after, in ms."""
    found = json.loads((folder / "recommendation.json").read_text())
    base_ns = found["answer"]["base_elapsed_ns"]
    if not one.cache:
        return base_ns / 1e6, found["units"]["elapsed_ns"] / 1e6
    (row,) = (row for row in found["caches"] if (row["rival"], row["mode"]) == RIVALS[one.cache])
    return base_ns / 1e6, (row["elapsed_ns"] + row["delayed_ns"]) / 1e6


@pytest.mark.parametrize(
    ("kind", "measured_as", "answers"),
    [(*key, answers) for key, answers in LAYOUTS.items()],
    ids=[kind for kind, _ in LAYOUTS],
)
def test_the_predicted_times_are_there_when_the_script_was_run(
    kind: str, measured_as: str, answers: Sequence[Answer], tmp_path: Path
) -> None:
    skip_unless_guests_run()
    # GIVEN an application on a disk of 1 ms, traced, and an NVM of 20 us, measured
    share = tmp_path / "share"
    share.mkdir()
    for name in ("gain.sh", "application.py"):
        shutil.copy(IN_GUEST / name, share)
    share_modules(share, *MODULES, packages=PACKAGES)
    script = f". $LAB_SHARE/gain.sh; as_it_was {measured_as} {kind}"
    run_script(tmp_path, script, *GUEST, out="before")
    profile = profile_of(tmp_path, measured_as)
    folder, before_ms = parsed(tmp_path, kind, run="before")
    # WHEN the scripts are carried out, and the application is run again
    times: dict[str, tuple[float, float]] = {}
    for one in answers:
        asked = [word.format(files=tmp_path / "before/files/files.csv") for word in one.asked]
        words = ("--script", share / f"{one.name}.sh", "--profiles", profile)
        succeed("recommend", folder, "--nvm", "lab-nvm", *asked, *words)
        times[one.name] = predicted(folder, one)
    ran = " ".join(f"{one.name}:{kind}:{one.depth}:{one.cache}" for one in answers)
    run_script(tmp_path, f". $LAB_SHARE/gain.sh; carried_out {ran}", *GUEST, out="after")
    left = {one.name: parsed(tmp_path, one.name, run="after")[1] for one in answers}
    sys.stderr.write(f"ms, {before_ms} before: {times} predicted, {left} measured\n")
    # THEN the time saved is the predicted one, and so is the time left
    for one in answers:
        base_ms, after_ms = times[one.name]
        assert base_ms == pytest.approx(before_ms, rel=0.001)
        assert before_ms - left[one.name] == pytest.approx(base_ms - after_ms, rel=CLOSE)
        if one.depth == 1:
            assert left[one.name] == pytest.approx(after_ms, rel=CLOSE)
        else:  # requests in flight together take less than one after the other
            assert 0 < left[one.name] < after_ms
