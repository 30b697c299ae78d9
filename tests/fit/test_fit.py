"""Profiles made of traces: the command, and gaps and places that are known."""

import json
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats
from typer.testing import Result

import tracekit as tk
from tests.command_line import invoke, succeed
from tests.generate.profiles import requests as made_requests
from tests.replay.trace import trace
from tests.traces import recencies
from tracekit.arrow import Floats
from tracekit.errors import BudgetError, InputError
from tracekit.store import TraceFolder
from tracekit.tables import FIDELITY, FIDELITY_CURVE
from tracekit.workload import fit, fit_arrivals, questions
from tracekit.workload.fidelity import ROWS, Requests, compared
from tracekit.workload.fit import find_cyclic_range, fit_kinds, region_of
from tracekit.workload.model import OPERATIONS, QUANTILES, Distribution, mean
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


def made_profile(*words: str | Path) -> Result:
    """Run `fit`, which must make a profile, whether it can stand for its trace or not."""
    done = invoke(*words)
    assert done.exit_code == 0 or isinstance(done.exception, BudgetError), done.output
    return done


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return a folder with a synthetic trace, the profile of it, and what the command said."""
    folder = tmp_path_factory.mktemp("fit")
    (folder / "known.toml").write_text(SAMPLE)
    made = invoke("generate", folder / "known.toml", "--requests", "30000", "-o", folder / "trace")
    assert made.exit_code == 0, made.output
    succeed("classify", folder / "trace")
    result = made_profile("fit", folder / "trace", "-o", folder / "found.toml", "--json")
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
    made_profile("fit", folder / "trace", "-o", folder / "named.toml", "--names", "--no-compare")
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
    result = made_profile("fit", folder.path, "-o", tmp_path / "out.toml", "--json")
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
    made_profile(*asked, "--force")


def test_nothing_to_fit_is_reported(tmp_path: Path) -> None:
    folder = trace(tmp_path / "trace", [{**ONE, "operation": "discard"}])
    result = invoke("fit", folder.path, "-o", tmp_path / "out.toml")
    assert "there is no read, write or flush" in str(result.exception)
    assert not (tmp_path / "out.toml").exists()


COUNT = 40_000
RANDOM = np.random.default_rng(5)
KNOWN = {
    "exponential": (stats.expon(scale=1e6), {"mean": 1e6}),
    "gamma": (stats.gamma(0.5, scale=2e6), {"mean": 1e6, "shape": 0.5}),
    "weibull": (stats.weibull_min(2.5, scale=1e6), {"mean": 1e6 * math.gamma(1.4), "shape": 2.5}),
    "lognormal": (stats.lognorm(0.8, scale=1e6), {"mean": 1e6 * math.exp(0.32), "sigma": 0.8}),
}


def bursts() -> Floats:
    """Return gaps of which one in ten is a pause a hundred times as long."""
    is_pause = RANDOM.random(COUNT) < 0.1
    return np.where(is_pause, RANDOM.exponential(1e7, COUNT), RANDOM.exponential(1e5, COUNT))


@pytest.mark.parametrize("process", KNOWN)
def test_the_likeliest_is_the_one_it_was_drawn_from(process: str) -> None:
    drawn, values = KNOWN[process]
    gaps = np.sort(drawn.rvs(COUNT, random_state=np.random.default_rng(1)))
    best = fit_arrivals.fits(gaps)[0]
    # THEN process and parameters are found, and the distance is that of scipy's own test
    assert best.process == process
    assert best.values == pytest.approx(values, rel=0.03)
    assert best.distance(gaps) == pytest.approx(stats.kstest(best.cdf(gaps), "uniform").statistic)
    # AND the likelihood is that of scipy's density
    assert best.log_likelihood == pytest.approx(density(process, best.values, gaps), rel=1e-6)


def density(process: str, values: dict[str, float], gaps: Floats) -> float:
    """Return scipy's logarithm of the likelihood."""
    mean_ns = values["mean"]
    drawn = {
        "exponential": lambda: stats.expon.logpdf(gaps, scale=mean_ns),
        "gamma": lambda: stats.gamma.logpdf(gaps, values["shape"], scale=mean_ns / values["shape"]),
        "weibull": lambda: stats.weibull_min.logpdf(
            gaps, values["shape"], scale=mean_ns / math.gamma(1 + 1 / values["shape"])
        ),
        "lognormal": lambda: stats.lognorm.logpdf(
            gaps, values["sigma"], scale=mean_ns * math.exp(-(values["sigma"] ** 2) / 2)
        ),
    }
    return float(np.sum(drawn[process]()))


def test_bursts_are_found() -> None:
    best = fit_arrivals.fits(np.sort(bursts()))[0]
    assert best.process == "on-off"
    assert best.values == pytest.approx({"mean": 1e5, "off": 1e7, "requests": 10}, rel=0.05)
    assert best.mean_ns == pytest.approx(0.9 * 1e5 + 0.1 * 1e7, rel=0.03)


def test_equal_gaps_are_constant() -> None:
    (only,) = fit_arrivals.fits(np.full(10, 5e5))
    assert (only.process, only.values) == ("constant", {"mean": 5e5})


def test_quantiles_keep_the_mean() -> None:
    gaps = np.sort(bursts())
    shares, values = fit_arrivals.quantiles(gaps)
    found = Distribution(QUANTILES, values=tuple(values), up_to=tuple(shares))
    assert mean(found) == pytest.approx(gaps.mean(), rel=1e-4)
    assert (shares[0], shares[-1]) == (0, 1)
    assert values == sorted(values)


def test_correlation_and_dispersion_by_hand() -> None:
    # GIVEN gaps that rise and fall in turn: ranks go from low to high and back
    assert fit_arrivals.correlation(np.array([1.0, 9.0] * 50)) == pytest.approx(-1, abs=0.02)
    assert fit_arrivals.correlation(np.array([1.0, 2.0])) == 0
    # AND windows of 10 ns with 3, 0 and 1 requests: variance 14/9, mean 4/3
    assert fit_arrivals.dispersion(np.array([0.0, 1, 2, 25]), 10) == pytest.approx(14 / 9 / (4 / 3))


def test_phases_take_the_rate_out() -> None:
    # GIVEN exponential gaps that are ten times as long in the second half
    slow = np.repeat([1e5, 1e6], [20_000, 2_000])
    drawn = np.random.default_rng(2).exponential(1, len(slow))
    times = np.array(np.cumsum(drawn * slow), dtype=np.float64)
    found = fit_arrivals.fit_arrival(times, float(times[-1]))
    # THEN the phases have the rates, and what is left is exponential again
    assert len(found.phases) == fit_arrivals.MOST_PHASES
    rates = [rate for _, rate in found.phases]
    assert np.mean(rates[:20]) / np.mean(rates[-20:]) == pytest.approx(10, rel=0.1)
    assert found.keys["process"] in ("exponential", "gamma", "weibull")
    assert found.keys.get("shape", 1) == pytest.approx(1, abs=0.05)


def test_a_few_requests_at_the_end_come_at_the_end() -> None:
    # GIVEN five requests in the last millisecond of a second
    times = np.array([999.0e6, 999.1e6, 999.2e6, 999.3e6, 999.4e6])
    found = fit_arrivals.fit_arrival(times, 1e9)
    rates = [rate for _, rate in found.phases]
    assert rates[-1] == fit_arrivals.MOST_PHASES
    assert not any(rates[:-1])
    # AND of a stream of two, a pause of nearly a second and a short one, the rate is kept
    keys = fit_arrivals.fit_arrival(np.array([999e6, 999.1e6]), 1e9, measured=True).keys
    values = tuple(value * 1e3 for value in keys["values_us"])
    found_mean = mean(Distribution(QUANTILES, values=values, up_to=tuple(keys["shares"])))
    assert found_mean == pytest.approx(5e8, rel=0.01)


def test_measured_gaps_can_be_asked_for() -> None:
    times = np.cumsum(np.random.default_rng(3).exponential(1e6, 5000))
    assert fit_arrivals.fit_arrival(times, float(times[-1])).keys["process"] != "measured"
    assert (
        fit_arrivals.fit_arrival(times, float(times[-1]), measured=True).keys["process"]
        == "measured"
    )


def request_rows(*requests: tuple[int, int, int]) -> np.ndarray[Any, np.dtype[np.void]]:
    """Return rows of sector, sectors and operation."""
    rows = np.zeros(len(requests), ROWS)
    for row, (sector, sectors, operation) in zip(rows, requests, strict=True):
        row["sector"], row["sectors"], row["operation"] = sector, sectors, operation
    return rows


def test_places_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN writes 0-8-16, a jump to 800, back to 24 where the first run ended, and 800 again,
    # between them a flush and a read of another stream at 800; and that nothing is rare
    monkeypatch.setattr(fit, "RARE", 0)
    rows = request_rows((0, 8, 1), (8, 8, 1), (16, 8, 1), (800, 8, 1), (0, 0, 2), (24, 8, 1),
                   (800, 8, 0), (800, 8, 1))  # fmt: skip
    mine = np.array([True] * 6 + [False, True])
    on, resumed, new, run, used, flush = fit_kinds(
        region_of(rows, first_sector=0, sectors=1 << 12), mine
    )
    # THEN each has its place in the order of what comes behind it; of what is last, nothing does
    assert (on["begins"], on["pages"], on["then"]) == ("on", "new", [1, 0, 1, 0, 0, 0])
    assert (resumed["begins"], resumed["pages"]) == ("resumed", "new")
    assert resumed["then"] == [0, 0, 0, 0, 1, 0]
    assert (new["begins"], new["pages"], new["then"]) == ("elsewhere", "new", [0, 0, 0, 0, 0, 1])
    assert (used["begins"], used["pages"]) == ("again", "used")
    assert used["then"] == [2, 1, 1, 1, 1, 1]
    assert (run["begins"], run["pages"], run["then"]) == ("elsewhere", "new", [1, 0, 0, 0, 0, 0])
    assert (flush["operation"], flush["then"]) == ("flush", [0, 1, 0, 0, 0, 0])
    # AND the same write was the third last request, with the read of the other stream
    assert used["distance"] == {"shares": [0, 1.0], "values": [3.0, 4.0]}
    assert used["uses"] == [[0, 1]]
    assert [one["share"] for one in (on, resumed, new, used, run, flush)] == pytest.approx(
        [2 / 7, *[1 / 7] * 5]
    )


def test_used_places_of_one_and_several_pages_are_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN three pages at 0, then a page of them and all of them again, from elsewhere each time
    monkeypatch.setattr(fit, "RARE", 0)
    rows = request_rows((0, 24, 1), (800, 8, 1), (8, 4, 1), (1600, 8, 1), (0, 24, 1))
    kinds = fit_kinds(region_of(rows, first_sector=0, sectors=1 << 12), np.ones(len(rows), bool))
    assert [(one["pages"], one["share"]) for one in kinds] == [
        ("new", 0.6), ("used", 0.2), ("used", 0.2)
    ]  # fmt: skip
    new, one, several = kinds
    assert new["size"] == {"values": ["4096", "12288"], "weights": [2, 1]}
    # THEN the page was used three pages before, and the three were read four requests before
    assert (one["begins"], one["size"], one["distance"]["values"]) == (
        "elsewhere",
        "2048",
        [3.0, 4.0],
    )
    assert (several["begins"], several["size"]) == ("again", "12288")
    assert several["distance"]["values"] == [4.0, 5.0]


def test_only_what_the_same_operation_did_is_again(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a write of three pages, a part of it, and then a read of them
    monkeypatch.setattr(fit, "RARE", 0)
    rows = request_rows((0, 24, 1), (800, 8, 1), (8, 16, 1), (1600, 8, 1), (0, 24, 0))
    kinds = fit_kinds(region_of(rows, first_sector=0, sectors=1 << 12), np.ones(len(rows), bool))
    assert {one["begins"] for one in kinds} == {"elsewhere"}


def test_popular_pages_are_as_popular(tmp_path: Path) -> None:
    # GIVEN writes of which every third is of one of two pages, and as many reads of all pages
    random = np.random.default_rng(6)
    count = 12_000
    pages = np.where(np.arange(count) % 3, random.integers(2, 600, count), np.arange(count) % 2)
    rows = np.zeros(2 * count, ROWS)
    rows["sectors"], rows["operation"] = 8, np.arange(2 * count) % 2
    rows["sector"][1::2] = pages * 8
    rows["sector"][::2] = random.permutation(pages) % 600 * 8
    rows["time_ns"] = np.arange(2 * count) * 1_000
    profile, _ = fit.fit_profile(Requests(rows, [("sda", "fs")], [("fs", None)]), fit.FitOptions())
    # WHEN as many requests are made, THEN the most written pages have about their third
    assert top_share(tmp_path, profile, len(rows)) == pytest.approx(1 / 3, abs=0.1)
    # AND not where a profile does not say how often pages were used
    for request in profile["stream"][0]["request"]:
        request.pop("uses", None)
    assert top_share(tmp_path, profile, len(rows)) < 0.1


def top_share(folder: Path, profile: dict[str, Any], count: int) -> float:
    """Return the share of the writes that are of the 1 % most written pages."""
    file = folder / "popular.toml"
    file.write_text(fit.toml({"name": "popular", "about": "", **profile}, ""))
    made = made_requests(read_profile(file), count)
    written = made["sector"][made["operation"] == 1]
    uses = np.sort(np.unique(written, return_counts=True)[1])
    return float(uses[-6:].sum() / uses.sum())


def test_a_partition_beside_the_pages_stays_so() -> None:
    # GIVEN reads of 64 KiB that lie side by side from sector 63 on, in one order and in another
    random = np.random.default_rng(3)
    places = [*random.permutation(40).tolist(), *random.permutation(40).tolist()]
    rows = request_rows(*((63 + 128 * at, 128, 0) for at in places))
    requests = Requests(rows, [("sda", "fs")], [("fs", None)])
    profile, _ = fit.fit_profile(requests, fit.FitOptions())
    (stream,) = profile["stream"]
    # THEN the part of the target begins as far beside a page, and each is new once
    assert int(stream["start"]) % 4096 == 7 * 512
    new = sum(one["share"] for one in stream["request"] if one["pages"] == "new")
    assert new == pytest.approx(0.5)


def test_rare_kinds_begin_elsewhere_on_such_pages() -> None:
    on, resumed, elsewhere, run = fit.ON, fit.RESUMED, fit.ELSEWHERE, fit.RUN_START
    kinds = np.array([on] * 20 + [on + 1] * 3 + [resumed] * 2 + [elsewhere] + [run + 3] * 4)
    assert fit.kept_kinds(kinds).tolist() == (
        [on] * 20 + [elsewhere + 1] * 3 + [elsewhere] * 3 + [elsewhere + 1] * 4
    )


def test_distances_are_those_of_a_stack_kept_by_hand() -> None:
    random = np.random.default_rng(4)
    pages = (random.zipf(1.4, 3000) % 97) * 16
    rows = request_rows(*((int(page), 8, 0) for page in pages))
    kinds = fit_kinds(region_of(rows, first_sector=0, sectors=1 << 12), np.ones(len(rows), bool))
    (read,) = (one for one in kinds if one["pages"] == "used")
    backs = [back for back in recencies(pages.tolist()) if back]
    # THEN share and quantiles are those of the list, where the profile has a value
    assert read["share"] == pytest.approx(len(backs) / len(pages), abs=1e-5)
    found = read["distance"]
    for share, value in zip(found["shares"][1:], found["values"][1:], strict=True):
        assert share == pytest.approx(np.mean(np.array(backs) < value), abs=1e-5)


RING = np.tile(np.arange(8, 1000, 8), 3)
"""Places of a log that goes round three times, without its first page."""


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (RING, (8, 992)),
        (RING[:100], (8, 4088)),  # never round: up to the end of the region
        (RING[30:200], (8, 992)),  # from the middle on
        (np.concatenate([[0], RING[20:]]), (8, 992)),  # with a header
        (RING[::-1], None),  # backwards
        (np.concatenate([RING[:70], RING[20:]]), (8, 992)),  # once back to the middle
        (np.concatenate([RING[at : at + 70] for at in range(0, 200, 20)]), None),  # ever again
        (RING[:20], None),  # too few
        (np.concatenate([RING[40:124]] * 3 + [[0]]), None),  # much lies before it
    ],
    ids=["round", "not round", "middle", "header", "backwards", "once", "often", "few", "much"],
)
def test_a_ring_is_found(start: np.ndarray[Any, Any], expected: tuple[int, int] | None) -> None:
    eights = np.full(len(start), 8)
    found = find_cyclic_range(np.zeros(len(start), int), start, sectors=eights, region_sectors=4096)
    assert (None if found is None else (found.first_sector, found.sectors)) == expected


def test_a_ring_is_one_of_several_kinds() -> None:
    # GIVEN a log of two kinds of writes, and of a third kind one in 31 elsewhere
    start: list[int] = []
    codes: list[int] = []
    for number, place in enumerate(RING.tolist()):
        start, codes = [*start, place], [*codes, 32 + number % 2]
        if number % 31 == 0:
            start, codes = [*start, 3000 + 8 * (number % 3)], [*codes, 40]
    found = find_cyclic_range(np.array(codes), np.array(start), sectors=np.full(len(start), 8),
                      region_sectors=4096)  # fmt: skip
    assert found is not None
    assert (found.kinds, found.first_sector, found.sectors) == ((32, 33), 8, 992)


@pytest.mark.parametrize("size_bytes", [512, 1024])
def test_runs_of_less_than_a_page_take_as_many_pages(tmp_path: Path, size_bytes: int) -> None:
    # GIVEN runs of small writes at random places, of which only the first in a page finds it new
    random, sectors = np.random.default_rng(5), size_bytes // 512
    starts = random.permutation(4000)[:200] * 64
    rows = [
        {"queue_ns": 1000 * number + int(random.integers(900)), "length_bytes": size_bytes,
         "sector": 2048 + int(start) + step * sectors, "role": "fs"}
        for number, (start, step) in enumerate((a, b) for a in starts for b in range(40))
    ]  # fmt: skip
    trace(tmp_path / "trace", rows)
    told = json.loads(
        made_profile("fit", tmp_path / "trace", "-o", tmp_path / "p.toml", "--json").stdout
    )
    (misses,) = (
        row for row in told["fidelity"] if row["measure"] == "miss_ratio" and row["role"] == "all"
    )
    # THEN the profile's requests touch as many pages
    assert misses["synthetic_mean"] == pytest.approx(misses["original_mean"], rel=0.1)


def answer(placement: str, gain: float, best: float = 0.5) -> questions.PlacementAnswer:
    return questions.PlacementAnswer(
        placement=placement, capacity_bytes=4096, gain_ratio=gain, best_gain_ratio=best
    )


@pytest.mark.parametrize(
    ("answers", "is_same"),
    [
        ((answer("fs", 0.30), answer("fs", 0.329)), True),
        ((answer("fs", 0.30), answer("fs", 0.331)), False),
        ((answer("fs", 0.30), answer("journal", 0.30)), False),
        # Without roles the best blocks say it.
        ((answer("base", 0, 0.5), answer("base", 0, 0.52)), True),
        ((answer("base", 0, 0.5), answer("base", 0, 0.4)), False),
    ],
)
def test_a_profile_that_answers_in_another_way_cannot_stand_for_its_trace(
    fitted: tuple[Path, dict[str, Any]],
    tmp_path: Path,
    answers: tuple[questions.PlacementAnswer, questions.PlacementAnswer],
    *,
    is_same: bool,
) -> None:
    # GIVEN what is recommended for a trace and for its profile, at the capacity of the former
    folder, left = TraceFolder(fitted[0] / "trace"), list(answers)
    asked = []

    def recommend(_folder: TraceFolder, capacity_bytes: int) -> questions.PlacementAnswer:
        asked.append(capacity_bytes)
        return left.pop(0)

    options = fit.FitOptions()
    found = fit.fit(folder, tmp_path / "p.toml", options=options, recommend=recommend)
    assert asked == [0, 4096]
    (question,) = (one for one in found["questions"] if one["about"] == questions.PLACEMENT)
    assert question["is_same"] == is_same
    told = [line for line in found["headline"] if "choose what goes to NVM" in line]
    assert bool(told) != is_same


def test_the_real_question_is_asked(fitted: tuple[Path, dict[str, Any]]) -> None:
    # GIVEN the trace with the gains that `recommend` finds for it and for the profile's requests
    folder, told = fitted
    (question,) = (one for one in told["questions"] if one["about"] == questions.PLACEMENT)
    copy = folder / "copy"
    shutil.copytree(folder / "trace", copy)
    original = tk.open(copy)
    original.classify()
    advice = original.recommend(base="hdd-7200")
    gains = [advice.answer["gain_ratio"]]
    made = tk.generate(str(folder / "found.toml"), requests=told["requests"])
    made.classify()
    size = advice.answer["capacity_bytes"]
    gains.append(made.recommend(base="hdd-7200", capacity=size).answer["gain_ratio"])
    assert question["difference"] == pytest.approx(abs(gains[0] - gains[1]))
    # AND nothing of it is left in the trace
    assert not (folder / "trace/recommendation.json").exists()


def test_a_trace_that_recommend_refuses_is_no_question(
    fitted: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    def refuse(_folder: TraceFolder, _capacity_bytes: int) -> questions.PlacementAnswer:
        raise InputError("no")

    folder, options = TraceFolder(fitted[0] / "trace"), fit.FitOptions()
    found = fit.fit(folder, tmp_path / "p.toml", options=options, recommend=refuse)
    assert [one["about"] for one in found["questions"]] == [questions.CACHES]
    # AND neither is one whose roles are not known yet: its copy would have others than the profile
    shutil.copytree(folder.path, tmp_path / "parsed", ignore=lambda *_: {"blocks.parquet"})
    done = made_profile("fit", tmp_path / "parsed", "-o", tmp_path / "q.toml", "--json")
    assert [one["about"] for one in json.loads(done.stdout)["questions"]] == [questions.CACHES]
