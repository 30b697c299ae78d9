"""`simulate purchase`: verdicts, front and growth by hand, shared NVM against brute force."""

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from tests.command_line import invoke, refused, succeed
from tests.simulate.placement_models import DISK, NVM, Block, Request, write_trace
from tests.simulate.test_endurance import HOUR_NS, made, requests
from tests.simulate.test_sensitivity import profile_file
from tests.traces import json_of, rows_of
from tracekit.devices import LatencyCell, Profile
from tracekit.errors import InputError, UsageError
from tracekit.model.purchase import Offer, judge, mark_front, slowed, years_until
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.model.shared_nvm import Tenant, share_nvm
from tracekit.store import TraceFolder

BOUGHT = replace(
    NVM, capacity_gb=0.001, warranty_years=5.0, price_usd_per_gb=1000.0, price_date="2026-11"
)
"""Of 1 MB for one USD."""


@pytest.fixture
def folder(tmp_path: Path) -> TraceFolder:
    return made(tmp_path, requests())


def bought(folder: TraceFolder, *devices: Profile, **options: Any) -> dict[str, Any]:
    file = profile_file(folder.path.parent / "bought.toml", DISK, *devices)
    words = [f"--{key}={value}" for key, value in options.items()]
    done = succeed(
        "simulate", "purchase", folder.path, "--profiles", file, "--json",
        "--nvm", ",".join(one.name for one in devices), *words,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def best_blocks(folder: TraceFolder) -> set[Block]:
    """Return the blocks of the best placement, as `recommend` wrote them."""
    return {
        (row["device"], row["first_block"] + number)
        for row in rows_of(folder.path / "simulations/best_placement.parquet")
        for number in range(row["blocks"])
    }


def written_a_day(placed: set[Block] | None = None) -> int:
    """Return what is written in a day with these blocks on NVM, or with all; a trace of an hour."""
    written = [block for one in requests() if one.operation == "write" for block in one.blocks]
    return 24 * 4096 * sum(placed is None or block in placed for block in written)


@pytest.mark.parametrize(("years", "verdict"), [(4.9, "do not buy"), (5.1, "buy")])
def test_what_wears_out_within_its_warranty_is_not_bought(
    folder: TraceFolder, years: float, verdict: str
) -> None:
    tbw = written_a_day() * 365.25 * years / 1e12
    found = bought(folder, replace(BOUGHT, tbw=tbw))
    (offer,) = found["offers"]
    assert offer["lifetime_years"] == pytest.approx(years)
    assert offer["written_bytes_a_day"] == written_a_day()
    assert offer["price_usd"] == 1.0
    assert (offer["verdict"], found["chosen"]) == (verdict, "nvm" if verdict == "buy" else None)
    first = found["headline"][0]
    assert first.startswith("Buy 1 x nvm" if verdict == "buy" else "Do not buy: none of 1 offers")
    assert ("within its warranty of 5 years" in offer["reason"]) == (verdict != "buy")


@pytest.mark.parametrize(("years", "verdict"), [(4.9, "Do not buy nvm"), (5.1, None)])
def test_recommend_and_endurance_say_so_too(
    tmp_path: Path, years: float, verdict: str | None
) -> None:
    folder = made(tmp_path, requests())
    written = json.loads(succeed("simulate", "endurance", folder.path, "--json").stdout)
    rows = rows_of(folder.path / "simulations/endurance.parquet")
    # GIVEN a device that what the best placement has on it wears out in so many years
    tbw = written_a_day(best_blocks(folder)) * 365.25 * years / 1e12
    (tmp_path / "b").mkdir()
    bears = replace(BOUGHT, tbw=tbw, assumed=("fua_us", "flush_us"))
    worn = made(tmp_path / "b", requests(), nvm=bears)
    head = json.loads((worn.path / "recommendation.json").read_text())["headline"]
    assert head[0].startswith(verdict or "With ")
    assert "Assumed, with no source: 2 figures of nvm." in head[verdict is not None]
    assert ("of a trace of 1 h 0 min, at the same rate all day" in head[0]) == bool(verdict)
    told = succeed("simulate", "endurance", worn.path).stdout
    # and endurance says so of every placement that uses all of the capacity
    a_year = [row["bytes_a_day"] * 365.25 for row in rows if row["kind"] == "placement"]
    assert ("do not buy it for this" in told) == (max(a_year) * 5 > tbw * 1e12)
    assert "not known, because nvm has no endurance_cycles" in "".join(written["headline"])


@pytest.mark.parametrize("usable", [5 * 4096, 10**6])
def test_an_offer_is_what_recommend_places(folder: TraceFolder, usable: int) -> None:
    # GIVEN a part of the device, or all of it, which takes all blocks
    file = profile_file(folder.path.parent / "bought.toml", DISK, BOUGHT)
    (offer,) = bought(folder, BOUGHT, capacity=f"{usable}B")["offers"]
    succeed(
        "recommend", folder.path, "--base", "disk", "--nvm", "nvm", "--profiles", file,
        "--capacity", f"{usable}B",
    )  # fmt: skip
    # THEN gain and wear are those of the best placement of `recommend`, and not of whole roles
    best = json_of(folder.path / "recommendation.json")["best_placement"]["answer"]
    placed = best_blocks(folder)
    assert offer["gain_ratio"] == pytest.approx(best["gain_ratio"])
    assert offer["placed_bytes"] == best["placed_bytes"] == len(placed) * 4096
    assert offer["written_bytes_a_day"] == written_a_day(placed)
    assert offer["placement"].split("+") == [*best["role_bytes"]]


def test_what_is_assumed_is_said_first(folder: TraceFolder) -> None:
    unsure = ("fua_us", "tbw", "price_usd_per_gb")
    guess = replace(BOUGHT, name="guess", tbw=1e6, assumed=unsure)
    mixes = cells({0: 10, 0.9: 11}, {0.1: 11, 1: 10})
    found = bought(folder, guess, replace(BOUGHT, tbw=1e6, distributions=mixes))
    assert [one["assumed"] for one in found["offers"]] == [["times", "price", "endurance"], []]
    assert found["headline"][1:6] == [
        "Assumed, with no source: some times of 1 of 2 devices: guess.",
        "Assumed, with no source: the price of 1 of 2 devices: guess.",
        "Assumed, with no source: the endurance of 1 of 2 devices: guess.",
        "Not measured, and in no gain here: how writes slow the reads of 1 of 2 devices: guess;"
        " characterize-device measures it.",
        "Writes a day are those of a trace of 1 h 0 min, at the same rate all day: a guess unless"
        " the load is always like this.",
    ]
    assert "capture is long enough" in found["headline"][6]
    line = found["headline"][0]
    assert "1 USD of 2026-11 (assumed)" in line
    assert "lasts over 100 years (assumed)" in line


def cells(read_us: dict[float, float], write_us: dict[float, float]) -> tuple[LatencyCell, ...]:
    return tuple(
        LatencyCell(operation, 4096, 4, share, 1000, ((0.0, us), (1.0, us)))
        for operation, found in (("read", read_us), ("write", write_us))
        for share, us in found.items()
    )


def test_writes_that_slow_reads_are_between_what_was_measured() -> None:
    device = replace(NVM, distributions=cells({0: 10, 0.5: 30}, {0.5: 50, 1: 40}))
    for share, read, write in ((0.0, 1.0, 1.25), (0.25, 2.0, 1.25), (0.75, 3.0, 1.125)):
        changed, factor = slowed(device, share) or (NVM, 0)
        assert factor == pytest.approx(read)
        assert changed.read_latency_us == pytest.approx(NVM.read_latency_us * read)
        assert changed.write_mib_s == pytest.approx(NVM.write_mib_s / write)
    assert slowed(NVM, 0.5) is None
    assert slowed(replace(NVM, distributions=cells({0: 10}, {1: 40})), 0.5) is None


def test_a_gain_that_mixed_writes_eat_up_is_not_bought(folder: TraceFolder) -> None:
    mixes = {"fine": 1.2, "slow": 3000.0}
    devices = [
        replace(
            BOUGHT, name=name, tbw=1e6,
            distributions=cells({0: 10, 0.9: 10 * factor}, {0.1: 10 * factor, 1: 10}),
        )
        for name, factor in mixes.items()
    ]  # fmt: skip
    found = bought(folder, *devices)
    offers = {one["device"]: one for one in found["offers"]}
    assert offers["fine"]["mixed_gain_ratio"] < offers["fine"]["gain_ratio"]
    assert offers["slow"]["mixed_gain_ratio"] < 0.01 < offers["slow"]["gain_ratio"]
    assert (found["chosen"], offers["slow"]["verdict"]) == ("fine", "do not buy")
    assert "writes among them its reads take" in offers["slow"]["reason"]


def test_budget_growth_and_several_devices(folder: TraceFolder) -> None:
    # GIVEN a load that trebles each year: one device of 1 MB, or as many as take it for five years
    touched = 4096 * len({block for one in requests() for block in one.blocks})
    device = replace(BOUGHT, tbw=written_a_day() * 3650 / 1e12)
    found = bought(folder, device, growth=3)
    one, several = found["offers"]
    assert (one["devices"], several["devices"]) == (1, math.ceil(touched * 3**5 / 1e6))
    assert one["full_years"] == pytest.approx(math.log(1e6 / touched, 3))
    assert several["full_years"] == pytest.approx(5, abs=0.1)
    assert (several["price_usd"], one["verdict"]) == (several["devices"], "do not buy")
    assert found["chosen"] == "nvm"
    # AND without growth one lasts ten years, and is the cheapest that does as much
    steady = bought(folder, device)
    assert [offer["devices"] for offer in steady["offers"] if offer["is_on_front"]] == [1]
    nothing = bought(folder, device, budget=0.5)
    assert nothing["chosen"] is None
    assert nothing["headline"][0].startswith("Do not buy: nothing that pays costs 0 USD or less")


@pytest.mark.parametrize("growth", [0.5, 0.9, 1.0, 1.3, 4.0])
def test_a_growing_load_uses_up_the_rating_as_its_integral(growth: float) -> None:
    years = years_until(1000, a_year=100, growth=growth)
    if math.isinf(years):
        assert 100 / -math.log(growth) <= 1000
        return
    assert integrate.quad(lambda t: 100 * growth**t, 0, years)[0] == pytest.approx(1000)


def offer(gain: float, price: float, years: float | None, **more: Any) -> Offer:
    return Offer(
        device="d", devices=1, capacity_bytes=1, price_usd=price, price_date=None, placement="fs",
        placed_bytes=1, gain_ratio=gain, mixed_gain_ratio=None, read_slowdown=None,
        write_ratio=0.5, written_bytes_a_day=1.0, lifetime_years=years, warranty_years=5,
        full_years=None, **more,
    )  # fmt: skip


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(6, 9)), max_size=8))
def test_the_front_is_what_no_other_beats(merits: list[tuple[int, int, int]]) -> None:
    found = mark_front([offer(gain / 10, price, years) for gain, price, years in merits])
    for one, (gain, price, years) in zip(found, merits, strict=True):
        beaten = any(
            g >= gain and p <= price and y >= years and (g, p, y) != (gain, price, years)
            for g, p, y in merits
        )
        assert one.is_on_front != beaten


@pytest.mark.parametrize(
    ("changes", "device", "reason"),
    [
        ({"gain": 0.004}, {}, "it gains 0.4%"),
        ({}, {"volatile": True}, "it is volatile"),
        ({"years": 4.0}, {}, "wear it out in 4.0 years"),
        ({"years": None}, {}, ""),
        ({}, {}, ""),
    ],
)
def test_reasons(changes: dict[str, Any], device: dict[str, Any], reason: str) -> None:
    found = judge(
        offer(**({"gain": 0.5, "price": 1.0, "years": 9.0} | changes)), replace(NVM, **device)
    )
    assert found.reason == "" if not reason else reason in found.reason
    assert found.verdict == ("do not buy" if reason else "buy")


curves = st.lists(
    st.lists(st.tuples(st.integers(1, 30), st.integers(-5, 50)), max_size=5), min_size=1, max_size=4
)


@given(curves, st.integers(0, 60))
def test_shared_nvm_is_divided_as_brute_force_does(
    points: list[list[tuple[int, int]]], capacity: int
) -> None:
    tenants = [Tenant(f"t{n}", 1000, 3600 * (n + 1), tuple(own)) for n, own in enumerate(points)]
    found = share_nvm(tenants, capacity)
    assert sum(share.capacity_bytes for share in found) <= capacity
    best = max(
        sum(saved / (n + 1) for n, (_, saved) in enumerate(chosen))
        for chosen in itertools.product(*([(0, 0), *own] for own in points))
        if sum(size for size, _ in chosen) <= capacity
    )
    assert sum(share.saved_s_an_hour for share in found) == pytest.approx(best)


def test_a_concave_division_is_the_greedy_one_and_is_quick() -> None:
    # GIVEN 12 tenants whose next MiB always saves less than the one before
    chance = np.random.default_rng(3)
    steps = np.sort(chance.integers(1, 10**6, (12, 64)))[:, ::-1]
    saved = steps.cumsum(axis=1)
    tenants = [
        Tenant(f"t{n}", 10**12, 10**9, tuple((m + 1 << 20, int(own[m])) for m in range(64)))
        for n, own in enumerate(saved)
    ]
    found = share_nvm(tenants, 200 << 20)
    # THEN the 200 largest steps of all are taken, and no step that is left is larger
    expected = float(np.sort(steps.ravel())[-200:].sum()) / 1e9 * 3600
    assert sum(one.saved_s_an_hour for one in found) == pytest.approx(expected)
    least = np.sort(steps.ravel())[-200] / 10**12
    assert all(one.marginal_ratio <= least for one in found)


def test_traces_share_what_is_recommended(folder: TraceFolder, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    other = made(tmp_path / "b", requests()[:100])
    found = bought(folder, replace(BOUGHT, tbw=1e6), share=other.path)
    # THEN two folders of one name are told apart
    assert [one["trace"] for one in found["shares"]] == [str(folder.path), str(other.path)]
    doubts = {line.split(":")[0] for line in found["headline"] if line.startswith("Of ")}
    assert doubts == {f"Of {folder.path}", f"Of {other.path}"}
    assert "those of traces of 1 h 0 min, " in "".join(found["headline"])
    total = sum(one["capacity_bytes"] for one in found["shares"])
    assert 0 < total <= found["shared_bytes"] == 12 * 4096
    assert "of the shared 48 KiB" in found["headline"][-2]


def shared_of(folder: Path, name: str, operation: str, base: Profile) -> TraceFolder:
    """Return a trace of 40 blocks, each read or written three times, on a base of its own."""
    asked = [Request("fs", 16 * block, operation=operation) for block in range(40)] * 3
    (folder / name).mkdir()
    write_trace(folder / name / name, asked, clock={"duration_ns": HOUR_NS, "wall_ns": None})
    file = profile_file(folder / name / "own.toml", base, NVM)
    options = RecommendOptions(
        base="disk", nvm="nvm", profiles=file, level="queued", capacities_bytes=(40 * 4096,)
    )
    recommend(TraceFolder(folder / name / name), options)
    return TraceFolder(folder / name / name)


@pytest.mark.parametrize("quick", ["read", "write"])
def test_what_is_bought_is_divided_by_what_it_saves_and_not_another_device(
    quick: str, tmp_path: Path
) -> None:
    # GIVEN a trace of reads and one of writes, and a device that is quick in one of them only
    folders = [shared_of(tmp_path, name, name, DISK) for name in ("read", "write")]
    slow: dict[str, Any] = {
        f"{name}_latency_us": 9000.0 for name in ("read", "write") if name != quick
    }
    device = replace(BOUGHT, name="bought", tbw=1e6, sequential_setup_us=None, **slow)
    found = bought(folders[0], device, share=folders[1].path, capacity="160KiB")
    # THEN the trace that it is quick for has it
    sizes = {one["trace"]: one["capacity_bytes"] for one in found["shares"]}
    assert sizes[quick] == 40 * 4096
    assert found["shared_device"] == found["chosen"] == "bought"
    # AND the offer is of that division
    (offer,) = found["offers"]
    assert offer["write_ratio"] == (quick == "write")


def test_traces_on_other_disks_share_too_and_that_is_said(tmp_path: Path) -> None:
    slower = replace(DISK, read_latency_us=40_000.0, write_latency_us=40_000.0)
    one = shared_of(tmp_path, "one", "read", DISK)
    said = "Each trace is on a base device of its own: one disk, "
    for name, base in (("other", slower), ("like", DISK)):
        found = bought(
            one, replace(BOUGHT, tbw=1e6), share=shared_of(tmp_path, name, "read", base).path,
            capacity="160KiB",
        )  # fmt: skip
        sizes = {share["trace"]: share["capacity_bytes"] for share in found["shares"]}
        # THEN what waits for the slower disk has it, and that the bases differ is said
        assert (f"{said}{name} disk." in found["headline"]) == (base == slower)
        assert base == DISK or sizes == {"one": 0, name: 40 * 4096}


def test_what_cannot_be_bought_is_refused(folder: TraceFolder) -> None:
    command = ("simulate", "purchase", folder.path)
    refused(invoke(*command, "--budget", "0"), "--budget 0: not an amount", error=UsageError)
    refused(invoke(*command, "--growth", "0"), "--growth 0: not a factor", error=UsageError)
    for value in ("nan", "-1", "inf"):
        for option in ("--budget", "--growth"):
            refused(invoke(*command, option, value), f"{option} {value}: not a", error=UsageError)
    refused(
        invoke(*command, "--capacity", "1B"), "--capacity 1B: less than a block", error=UsageError
    )
    refused(invoke(*command, "--share", folder.path), "--share: a trace cannot", error=UsageError)
    refused(invoke(*command, "--nvm", "ssd-emlc"), "has no price_usd_per_gb", error=InputError)
    refused(invoke(*command, "--nvm", "nope"), "there is no device profile", error=UsageError)
    base = invoke("recommend", folder.path, "--base", "traced")
    refused(base, "there is no device profile 'traced'", error=UsageError)
    assert str(getattr(base.exception, "hint", "")).startswith("did you mean trace?")


def test_an_offer_to_several_traces_is_all_of_them_together(
    folder: TraceFolder, tmp_path: Path
) -> None:
    (tmp_path / "b").mkdir()
    other = made(tmp_path / "b", requests()[:100])
    device = replace(BOUGHT, tbw=1.0)
    (together,) = bought(folder, device, share=other.path)["offers"]
    # GIVEN what each of them would do alone, and its time on the base device in the same hour
    alone = [bought(one, device)["offers"][0] for one in (folder, other)]
    base_ns = [
        json_of(one.path / "recommendation.json")["answer"]["base_elapsed_ns"]
        for one in (folder, other)
    ]
    # THEN what is written and placed adds up, and gains count by those times
    for key in ("written_bytes_a_day", "placed_bytes"):
        assert together[key] == pytest.approx(sum(one[key] for one in alone))
    gains = [one["gain_ratio"] for one in alone]
    assert together["gain_ratio"] == pytest.approx(np.average(gains, weights=base_ns))
    assert together["lifetime_years"] == pytest.approx(
        1 / sum(1 / one["lifetime_years"] for one in alone)
    )
    # AND of what is too small for all each gets its share
    (scarce,) = bought(folder, device, share=other.path, capacity="80KiB")["offers"]
    assert scarce["placed_bytes"] <= 20 * 4096 < together["placed_bytes"]
    assert scarce["gain_ratio"] < together["gain_ratio"]
