"""One rule of heads: what the model says a placement takes is what emulated devices take for it."""

from pathlib import Path
from typing import Any

import pytest

from tests.bench.placement import Sample, made
from tests.command_line import invoke
from tests.replay.timeless import Devices
from tests.simulate.placement_models import Request, write_trace
from tests.traces import json_of
from tracekit.devices import DevicePair, load_profiles
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.store import TraceFolder

PAIRS = (
    ("hdd-7200", "dax-pcm"),
    ("hdd-7200-seek", "ssd-optane"),
    ("ssd-sata", "hdd-15k"),  # as NVM it has a head, too
    ("network-storage", "ssd-nvme"),
)
# Times of the program are whole nanoseconds.
ROUNDED = 2e-3


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Devices:
    return Devices(tmp_path_factory.mktemp("device"))


@pytest.mark.parametrize("sample", ["browser", "oltp", "sysbench"])
def test_samples_take_on_emulated_devices_what_the_model_says(
    sample: str, program: Devices, tmp_path: Path
) -> None:
    made(tmp_path / "t", sample=sample)
    known = load_profiles()
    for level, coverage, share in (("issued", "hottest", 3), ("queued", "start", 2)):
        one = Sample(TraceFolder(tmp_path / "t"), share=share, level=level, coverage=coverage)
        assert one.cut_requests > 0 or level == "queued"
        for names in PAIRS:
            pair = DevicePair(*(known[name] for name in names))
            took, told = one.emulated_ns(pair, program), one.predicted_ns(pair)
            assert took == pytest.approx(told, rel=ROUNDED)


TOML = """
[disk]
about = "a disk of a fiftieth of the time"
read_latency_us = 254.0
write_latency_us = 274.0
read_mib_s = 7450.0
write_mib_s = 7450.0
sequential_setup_us = 1.0
flush_us = 167.0
fua_us = 167.0
price_per_gb = 1.0
"""


@pytest.mark.parametrize(
    ("placement", "roles", "key"),
    [
        ("answer", ("fs", "journal"), "answer"),
        ("best", ("fs", "journal"), "best"),
        ("extent=16KiB", ("fs", "journal"), "units"),
        ("role", ("fs", "journal"), "units"),
        ("answer", ("unknown", "unknown"), "units"),  # as the headline has it
    ],
)
def test_the_engine_itself_takes_it(
    placement: str, roles: tuple[str, str], key: str, tmp_path: Path
) -> None:
    # GIVEN a file system written in sequence, and a journal write after each few of its requests
    rows: list[Request] = []
    for number in range(120):
        rows.append(Request(roles[0], 64 * number, 64, queue_ns=number))
        if number % 3 == 0:
            sector = 1_000_000 + 8 * number
            rows.append(Request(roles[1], sector, is_preflush=True, is_fua=True, queue_ns=number))
    counts: dict[str, Any] = {"counts": {"requests": len(rows)}, "source": {"files": []}}
    folder = TraceFolder(write_trace(tmp_path / "t", rows, **counts))
    (tmp_path / "own.toml").write_text(TOML)
    options: dict[str, Any] = {"base": "disk", "nvm": "dax-pcm", "profiles": tmp_path / "own.toml"}
    capacity = 48 << 12
    if key == "units" and placement != "answer":
        # A journal takes 5 MiB at least, and the file system does not fit beside it.
        options["unit"], placement, capacity = placement, "units", 6 << 20
    recommend(folder, RecommendOptions(**options, capacities_bytes=(capacity,)))
    # WHEN it is replayed on emulated devices, THEN they take what was predicted, however late
    own = ("--profiles", tmp_path / "own.toml")
    invoke("verify-placement", folder.path, "--repeat", "1", "--placement", placement, *own)
    verified, advice = (
        json_of(folder.path / f"{name}.json") for name in ("verification", "recommendation")
    )
    told = verified["predicted"]
    of_best = advice["best_placement"]["answer"]
    assert verified["answer"] == (of_best if key == "best" else advice[key])
    assert verified["published_ratio"] == verified["answer"]["gain_ratio"]
    assert (verified["runner_up"] is None) == (key != "answer")
    for name in ("base", "placement"):
        summary = json_of(folder.path / "replays" / f"verify-{name}" / "summary.json")
        took = sum(one["modelled_sum_ns"] for one in summary["emulation"]["devices"])
        expected = told["base_ns" if name == "base" else "placed_ns"]
        assert took == pytest.approx(expected, rel=ROUNDED)
    # AND with the journal on NVM the file system is one stream
    assert told["placed_ns"] < told["base_ns"] / (1 if key == "units" else 3)
