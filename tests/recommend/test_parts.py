"""The parts of a recommendation: costs, profiles, grids, sizes, sets of roles and words."""

import itertools
import random
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.recommend.traces import BLOCK, DEVICES, US, curve, oltp, recommended
from tests.simulate.placement_models import Block, Request, hottest_first, model
from tests.traces import written
from tracekit.devices import BUILT_IN, choose_profile, load_profiles
from tracekit.errors import InputError, UsageError
from tracekit.model.answer import Candidate, Flip, follow_answer, lasting, make_grid
from tracekit.model.placement import Timings, to_ns
from tracekit.units import format_duration, format_size, parse_size


def candidate(placement: str, *elapsed_ps: int) -> Candidate:
    """Make a candidate that uses as much NVM as there is, base none."""
    used = np.arange(len(elapsed_ps)) * (placement != "base")
    return Candidate(placement, Timings(np.array(elapsed_ps)), {placement: used})


@pytest.mark.parametrize(
    ("others", "placements", "flips"),
    [
        # The journal is ahead from point 2 on, by 10 from point 4 on: the change is at point 2.
        (
            {"fs": (100, 80, 70, 65, 60), "journal": (100, 95, 69, 60, 40)},
            ["base", "fs", "journal", "journal", "journal"],
            [(1, "base", "fs"), (2, "fs", "journal")],
        ),
        # Two roles take turns by 1: each point has its answer, and no change is reported.
        (
            {"fs": (100, 60, 51, 40, 31), "journal": (100, 61, 50, 41, 30)},
            ["base", "fs", "journal", "fs", "journal"],
            [(1, "base", "fs")],
        ),
        # A split is 5, 12, 3 and 0 ahead: the answer from where it saves 10 to where it saves 0.
        (
            {"fs": (100, 80, 70, 60, 50), "combined": (100, 75, 58, 57, 50)},
            ["base", "fs", "combined", "combined", "fs"],
            [(1, "base", "fs"), (2, "fs", "combined"), (4, "combined", "fs")],
        ),
    ],
)
def test_changes_worth_10_are_reported(
    others: dict[str, tuple[int, ...]], placements: list[str], flips: list[tuple[int, str, str]]
) -> None:
    found = [candidate(name, *times) for name, times in ({"base": (100,) * 5} | others).items()]
    assert follow_answer(found, worth_ps=10) == (placements, flips)


def test_nothing_is_reported_when_nothing_pays() -> None:
    found = [candidate("base", 100, 100, 100), candidate("fs", 100, 100, 100)]
    assert follow_answer(found, worth_ps=1) == (["base", "base", "base"], [])


def test_answers_of_a_sliver_of_capacity_are_not_reported() -> None:
    # GIVEN a split that one role passes for 3 % more capacity, and a last change far from others
    names = ["base", "fs", "combined", "journal", "combined", "journal"]
    changes = [(at, *pair) for at, pair in enumerate(itertools.pairwise(names))]
    capacities = [4_096, 100_000, 1_000_000, 1_030_000, 9_000_000]
    # THEN the split goes on through the sliver
    assert lasting(changes, capacities) == [
        Flip(4_096, "base", "fs"),
        Flip(100_000, "fs", "combined"),
        Flip(9_000_000, "combined", "journal"),
    ]


FLUSHES = [Request("fs", 0, 0, "flush"), Request("journal", 0, 0, "flush")]


@pytest.mark.parametrize(
    ("requests", "name", "expected"),
    [
        # Each device that holds a block of a write costs its latency once and its own transfer.
        ([Request("fs", 0, 16)], "fs", {0: 4000 + 2000, 1: 4000 + 1000 + 5 + 10, 2: 5 + 20}),
        # When the first of two writes in sequence moves to NVM, the disk must seek for the second.
        ([Request("fs", 0), Request("fs", 8)], "fs", {0: 5000 + 1000, 1: 15 + 5000, 2: 15 + 15}),
        # Both are flushed until both blocks are on NVM; the journal has no block to move.
        (
            [Request("fs", 0), *FLUSHES, Request("fs", 80)],
            "fs",
            {0: 2 * 5000 + 2 * 7000, 1: 15 + 5000 + 3 + 2 * 7000, 2: 2 * 15 + 3 + 7000},
        ),
        (
            [Request("journal", 0, is_fua=True, is_preflush=True)],
            "journal",
            {0: 5000 + 500 + 7000, 1: 15 + 1 + 3},
        ),
    ],
)
def test_what_requests_cost(
    tmp_path: Path, requests: list[Request], name: str, expected: dict[int, int]
) -> None:
    recommended(tmp_path, requests)
    assert curve(tmp_path, name) == expected


def test_reads_and_writes_have_their_own_costs(tmp_path: Path) -> None:
    recommended(tmp_path, [Request("fs", 0, operation="read"), Request("fs", 80)])
    assert curve(tmp_path, "fs", "start") == {0: 3000 + 5000, 1: 12 + 5000, 2: 12 + 15}


def test_other_roles_are_placed_only_by_the_optimum(tmp_path: Path) -> None:
    result = recommended(tmp_path, [Request("other", 0), Request("unknown", 80)])
    assert result["answer"]["placement"] == "base"
    assert curve(tmp_path, "most-accessed-first") == {0: 10000, 1: 5015, 2: 30}
    assert any("2 requests of no placeable role" in text for text in result["assumptions"])
    # AND the headline begins with blocks of these roles, as none of another is there
    best = result["best_placement"]["answer"]
    assert (best["role_bytes"], best["elapsed_ns"]) == ({"other": BLOCK}, 5015 * US)
    assert "of other (1 extent, in simulations/best_placement)" in result["headline"][0]
    # AND it says how much of the time is of what has no role, and what to do about it
    assert result["headline"][1].endswith(
        "50% of the time is of requests without a role: set it with tracekit classify --role."
    )


def test_discards_are_counted_and_cost_nothing(tmp_path: Path) -> None:
    result = recommended(tmp_path, [Request("fs", 0), Request("fs", 8, 1 << 24, "discard")])
    assert result["left_out"]["uncharged"] == 1
    assert result["answer"]["base_elapsed_ns"] == 5000 * US


def test_a_trace_without_issue_times_is_charged_as_queued(tmp_path: Path) -> None:
    result = recommended(tmp_path, [Request("fs", 0)], level="issued")
    assert result["level"] == "queued"
    assert (
        "the trace has no issue times, so requests are charged as queued" in (result["assumptions"])
    )


def test_a_block_of_two_roles_moves_with_one_of_them(tmp_path: Path) -> None:
    # GIVEN a block that the file system touched first, and the journal after it
    requests = [Request("fs", 0), Request("journal", 4, 12)]
    result = recommended(tmp_path, requests, info={"hotness": {"mixed_role_blocks": 1}})
    # WHEN the journal is wholly on NVM, THEN the shared half of its request stays on the disk
    shared_us, own_us = 4000 + 500, 5 + 10
    assert curve(tmp_path, "journal")[2] == 5000 + shared_us + own_us
    # AND in the optimum both are on NVM
    assert curve(tmp_path, "most-accessed-first")[2] == 15 + 5 + 5 + 10
    assert result["assumptions"][-1].startswith("blocks touched by requests of several roles: 1;")


def test_a_small_trace_is_compared_at_every_block() -> None:
    grid = make_grid([7, 5, 0, 0, 0], [])
    # THEN the headline is a tenth of the footprint, rounded up
    assert grid.fine.tolist() == grid.fine[grid.shown].tolist() == list(range(13))
    assert grid.fine[grid.headline] == 2


def test_a_large_trace_is_compared_at_about_a_thousand() -> None:
    # GIVEN ten million blocks
    grid = make_grid([7_000_001, 2_999_999, 0, 0, 0], [])
    # THEN the capacities are few, ascending from 0, and have the sizes of the roles among them
    assert 900 <= len(grid.fine) <= 1100
    assert 55 <= len(grid.shown) <= 70
    assert np.all(np.diff(grid.fine) > 0)
    assert {0, 1, 2_999_999, 7_000_001, 10_000_000} <= set(grid.fine[grid.shown].tolist())
    assert grid.fine[grid.headline] == 1_000_000


def test_requested_capacities_are_exact_and_the_first_is_the_headline() -> None:
    # GIVEN capacities within, above and between blocks, THEN they are shown, rounded down to blocks
    grid = make_grid([5000, 0, 0, 0, 0], [777 * BLOCK, 9000 * BLOCK, 10 * BLOCK + 4095])
    assert {777, 9000, 10} <= set(grid.fine[grid.shown].tolist())
    assert grid.fine[grid.headline] == 777


def test_the_ends_of_a_grid() -> None:
    largest = make_grid([5000, 100, 0, 0, 0], [], max_bytes=300 * BLOCK)
    assert largest.fine[-1] == largest.fine[largest.headline] == 300
    nothing = make_grid([0, 0, 0, 0, 0], [])
    assert (nothing.fine.tolist(), nothing.shown.tolist(), nothing.headline) == ([0], [0], 0)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096B", 4096),
        ("0", 0),
        ("64MiB", 64 << 20),
        ("64m", 64 << 20),
        ("64 MB", 64_000_000),
        ("1.5GiB", 3 << 29),
        ("2t", 2 << 40),
    ],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_size(text, option="--capacity") == size


@pytest.mark.parametrize(
    "text", ["", "-1", "-1B", "MiB", "1.5.2G", "12 parsec", "1e3", "99999999PiB"]
)
def test_other_text_is_rejected_with_the_option(text: str) -> None:
    with pytest.raises(UsageError, match="--capacity: "):
        parse_size(text, option="--capacity")


@pytest.mark.parametrize(
    ("shown", "value", "text"),
    [
        (format_size, 0, "0 B"),
        (format_size, 4096, "4 KiB"),
        (format_size, 24 << 20, "24 MiB"),
        (format_size, 10113024, "9.64 MiB"),
        (format_size, 1023 << 20, "1,023 MiB"),
        (format_size, 5 << 40, "5 TiB"),
        (format_duration, 0, "0 ns"),
        (format_duration, 999_999, "1 ms"),
        (format_duration, 1_500, "1.5 us"),
        (format_duration, 25_042 * 10**9, "6 h 57 min"),
    ],
)
def test_sizes_and_durations_have_three_digits(
    shown: Callable[[int], str], value: int, text: str
) -> None:
    assert shown(value) == text


ROLES = ("fs", "journal", "swap")
SETS = [held for size in (1, 2, 3) for held in itertools.combinations(ROLES, size)]


def name_of(held: tuple[str, ...]) -> str:
    return "combined" if held == ROLES else "+".join(held)


def three_roles(seed: int) -> list[Request]:
    """Return 40 requests on 4 blocks of each role, some long, some flushes."""
    rng = random.Random(seed)  # noqa: S311 - a repeatable trace
    requests = []
    for _ in range(40):
        role = rng.choice(ROLES)
        block = min(int(rng.expovariate(0.7)), 3)
        operation = rng.choice(["read", "write", "write", "write", "flush"])
        sectors = 8 * rng.randint(1, 4 - block) if operation != "flush" else 0
        sector = 800 * ROLES.index(role) + 8 * block
        requests.append(Request(role, sector, sectors, operation, is_fua=rng.random() < 0.2))
    return requests


def least_ns(requests: list[Request], held: tuple[str, ...], *, capacity: int) -> int:
    """Try every division of a capacity in blocks between the roles, and return the least time."""
    known = load_profiles(DEVICES)
    devices = (known["plain"], known["nvm"])
    orders = [hottest_first(requests, role) for role in held]
    times = []
    for shares in itertools.product(*(range(len(order) + 1) for order in orders)):
        if sum(shares) <= capacity:
            placed: set[Block] = set()
            for order, share in zip(orders, shares, strict=True):
                placed.update(order[:share])
            times.append(model(requests, placed, devices).service)
    return int(to_ns(min(times)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("capacity", [0, 1, 3, 5, 12, 20])
def test_no_division_of_any_set_is_better(seed: int, capacity: int, tmp_path: Path) -> None:
    # GIVEN devices on which no role's requests depend on another's
    requests = three_roles(seed)
    result = recommended(tmp_path, requests, base="plain", capacities_bytes=(capacity * BLOCK,))
    found = {one["placement"]: one for one in result["role_sets"]}
    assert {name: one["elapsed_ns"] for name, one in found.items()} == {
        name_of(held): least_ns(requests, held, capacity=capacity) for held in SETS
    }
    # AND uses no more than there is, and nothing for other roles; its gain is of the base's time
    for held in SETS:
        one = found[name_of(held)]
        given = {role: one[f"{role}_bytes"] for role in ROLES}
        assert one["capacity_bytes"] == capacity * BLOCK
        assert sum(given.values()) <= capacity * BLOCK
        assert all(role in held for role, size in given.items() if size)
        base_ns = result["answer"]["base_elapsed_ns"]
        assert one["gain_ratio"] == pytest.approx(1 - one["elapsed_ns"] / base_ns, abs=1e-9)
    times = [one["elapsed_ns"] for one in result["role_sets"]]
    assert times == sorted(times)


def test_of_equal_sets_the_smaller_is_first(tmp_path: Path) -> None:
    # GIVEN a file system of hot blocks, and a journal and swap of one request each
    requests = [Request("fs", 16 * block) for _ in range(9) for block in range(4)]
    requests += [Request("journal", 800), Request("swap", 1600)]
    # WHEN only the file system's hottest blocks fit, THEN adding roles to it changes nothing
    result = recommended(tmp_path, requests, capacities_bytes=(2 * BLOCK,))
    names = [one["placement"] for one in result["role_sets"]]
    assert names[:4] == ["fs", "fs+journal", "fs+swap", "combined"]
    assert names[4:] == ["journal+swap", "journal", "swap"]


def test_only_sets_of_roles_that_the_trace_has(tmp_path: Path) -> None:
    two = recommended(tmp_path / "two", oltp()[::3])
    one = recommended(tmp_path / "one", [Request("swap", 0)])
    none = recommended(tmp_path / "none", [Request("other", 0)])
    assert {found["placement"] for found in two["role_sets"]} == {"combined", "fs", "journal"}
    assert [found["placement"] for found in one["role_sets"]] == ["swap"]
    assert none["role_sets"] == []


def test_sets_are_simulated_where_roles_share_a_queue(tmp_path: Path) -> None:
    requests = three_roles(1)
    result = recommended(
        tmp_path, requests, base="hdd-7200-seek", queueing="open", capacities_bytes=(4 * BLOCK,)
    )
    found = {one["placement"]: one for one in result["role_sets"]}
    # THEN every set has its time, and none that may leave a capacity empty is worse than no NVM
    assert found.keys() == {name_of(held) for held in SETS}
    base_ns = result["answer"]["base_elapsed_ns"]
    assert all(0 < one["elapsed_ns"] <= base_ns for one in found.values())


GOOD = {
    "about": '"my device"',
    "read_latency_us": "100.0",
    "write_latency_us": "50",
    "read_mib_s": "400.0",
    "write_mib_s": "200.0",
    "flush_us": "10.0",
    "fua_us": "0",
    "price_per_gb": "6.0",
}
HEAD = {
    "rpm": "7200",
    "seek_track_us": "1000",
    "seek_average_us": "12000",
    "seek_full_us": "20000",
    "capacity_gb": "320",
}


def own_file(folder: Path, *without: str, **changes: str) -> Path:
    """Write a file with the profile [mine]: GOOD less the keys `without`, with `changes`."""
    keys = {key: value for key, value in {**GOOD, **changes}.items() if key not in without}
    text = "".join(f"{key} = {value}\n" for key, value in keys.items())
    return written(folder / "own.toml", f"[mine]\n{text}")


def test_the_devices_of_both_studies_are_built_in() -> None:
    found = load_profiles()
    # Study B's 4 KiB latencies and prices are as published
    measured = {
        name: (found[name].read_latency_us, found[name].write_latency_us, found[name].price_per_gb)
        for name in ("ssd-pcm", "ssd-emlc", "hdd-15k", "network-storage")
    }
    assert measured == {
        "ssd-pcm": (6.7, 128.3, 24.0),
        "ssd-emlc": (108.0, 37.1, 6.0),
        "hdd-15k": (5000.0, 5000.0, 1.0),
        "network-storage": (919.0, 133.0, 1.0),
    }
    assert list(found)[:11] == [
        *("hdd-7200", "hdd-7200-seek", "hdd-15k", "ssd-sata", "ssd-nvme", "ssd-emlc", "ssd-pcm"),
        *("ssd-optane", "dax-pcm", "dram", "network-storage"),
    ]


def test_dax_pcm_has_the_delays_of_study_a() -> None:
    found = load_profiles()
    pcm, dram = found["dax-pcm"], found["dram"]
    # THEN PCM reads take 2 to 5 times and writes 8 to 50 times as long as DRAM's
    assert 2 <= dram.read_mib_s / pcm.read_mib_s <= 5
    assert 8 <= dram.write_mib_s / pcm.write_mib_s <= 50


def test_a_latency_contains_the_transfer_of_4_kib(tmp_path: Path) -> None:
    # GIVEN a device of 100 us and 400 MiB/s, which moves 4 KiB in 4096 / 419.4304 us
    profile = load_profiles(own_file(tmp_path))["mine"]
    # THEN its fixed cost is the rest
    assert profile.read_setup_us == pytest.approx(100 - 9.765625)
    assert profile.write_setup_us == pytest.approx(50 - 19.53125)
    assert profile.sequential_setup_us is None


def test_a_distribution_has_the_latency_as_its_mean(tmp_path: Path) -> None:
    # GIVEN latencies whose mean is 120 us, of a device of 100 us
    given = "[[0, 60], [0.5, 80], [0.9, 180], [1, 900]]"
    profile = load_profiles(own_file(tmp_path, read_quantiles_us=given))["mine"]
    found = profile.setup_quantiles_us("read")
    assert found is not None
    # THEN what is emulated has the mean that is modelled, and the form that was given
    assert [p for p, _ in found] == [0, 0.5, 0.9, 1]
    share = np.linspace(0, 1, 200_001)
    times = np.exp(np.interp(share, [p for p, _ in found], np.log([us for _, us in found])))
    assert np.trapezoid(times, share) == pytest.approx(profile.read_setup_us, rel=1e-6)
    ratios = [
        us / (given_us - 9.765625)
        for (_, us), given_us in zip(found, (60, 80, 180, 900), strict=True)
    ]
    assert ratios == pytest.approx([ratios[0]] * 4)
    assert profile.setup_quantiles_us("write") is None


def test_an_own_profile_replaces_one_of_the_same_name(tmp_path: Path) -> None:
    file = written(
        tmp_path / "own.toml", own_file(tmp_path).read_text().replace("[mine]", "[dram]")
    )
    found = load_profiles(file)
    assert found["dram"].read_latency_us == 100.0
    assert found["ssd-pcm"].read_latency_us == 6.7


@pytest.mark.parametrize(
    ("without", "changes", "words"),
    [
        ("", {"read_latency": "1"}, r"profile \[mine\]: unknown key 'read_latency'"),
        ("flush_us", {}, r"profile \[mine\] has no key 'flush_us'"),
        ("", {"flush_us": "-1.5"}, r"\[mine\], key 'flush_us': -1.5 is not a number from 0 up"),
        ("", {"empty_flush_us": "11"}, r"\[mine\]: empty_flush_us 11.0 is more than flush_us 10"),
        ("", {"fua_us": "nan"}, r"\[mine\], key 'fua_us': nan is not"),
        ("", {"fua_us": "inf"}, r"\[mine\], key 'fua_us': inf is not"),
        ("", {"read_mib_s": '"fast"'}, r"\[mine\], key 'read_mib_s': 'fast' is not a number"),
        ("", {"read_mib_s": "true"}, r"\[mine\], key 'read_mib_s': True is not a number"),
        ("", {"read_mib_s": "0"}, r"\[mine\], key 'read_mib_s': 0 MiB/s is not between"),
        ("", {"write_latency_us": "1e9"}, r"key 'write_latency_us': 1000000000.0 us is more than"),
        ("", {"price_per_gb": "0"}, r"\[mine\], key 'price_per_gb': a price of 0"),
        ("", {"about": "3"}, r"\[mine\], key 'about': 3 is not text"),
        ("", {"read_mib_s": "10"}, r"\[mine\]: read_latency_us 100.0 is shorter than moving"),
        ("", {"sequential_setup_us": "95"}, r"sequential_setup_us 95.0 is more than a random"),
        ("", {"parallelism": "1.5"}, r"'parallelism': 1.5 is not a whole number from 1 to 256"),
        ("", {"parallelism": "0"}, r"'parallelism': 0 is not a whole number"),
        ("", {"rpm": "7200"}, r"has no key 'seek_track_us' of a disk whose head moves"),
        ("", {"write_settle_us": "1"}, r"has no key 'rpm' of a disk whose head moves"),
        ("", {**HEAD, "rpm": "0"}, r"key 'rpm': 0 is not between 1 and 1000000"),
        ("", {**HEAD, "capacity_gb": "0"}, r"key 'capacity_gb': 0 GB is not between"),
        ("", {**HEAD, "parallelism": "2"}, r"a disk with one head has no parallelism above 1"),
        ("", {"read_quantiles_us": "5"}, r"'read_quantiles_us': not 2 to 64 pairs"),
        ("", {"read_quantiles_us": "[[0, 9]]"}, r"not 2 to 64 pairs"),
        ("", {"read_quantiles_us": "[[0, 9], [1, true]]"}, r"\[1, True\] is not a pair of numbers"),
        ("", {"read_quantiles_us": "[[0, 9], [2, 9]]"}, r"\[2, 9\] is not a probability"),
        ("", {"read_quantiles_us": "[[0, 0], [1, 9]]"}, r"\[0, 0\] is not a probability and up"),
        ("", {"read_quantiles_us": "[[0, 100], [1, 90]]"}, r"does not rise from a probability"),
        ("", {"read_quantiles_us": "[[0.1, 90], [1, 110]]"}, r"does not rise from a probability"),
        (
            "",
            {"read_quantiles_us": "[[0, 9], [1, 9]]"},
            r"mean of read_quantiles_us is 9 us, read_l",
        ),
        ("", {**HEAD, "read_quantiles_us": "[[0, 90], [1, 110]]"}, r"times of a disk whose head"),
        ("", {**HEAD, "seek_full_us": "9000"}, r"seeks of 1000.0 us track to track, 12000.0 us on"),
        ("", {**HEAD, "seek_average_us": "900"}, r"are not those of a curve that only rises"),
    ],
)
def test_what_is_wrong_is_named(
    without: str, changes: dict[str, str], words: str, tmp_path: Path
) -> None:
    file = own_file(tmp_path, without, **changes)
    with pytest.raises(InputError, match=words) as caught:
        load_profiles(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no profile"),
        ("[mine\n", "is not valid TOML"),
        ("read_mib_s = 5\n", "'read_mib_s = 5' is outside of any profile"),
        (None, r"own\.toml: there is no such file"),
    ],
)
def test_files_without_profiles(text: str | None, words: str, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InputError, match=words):
        load_profiles(file)


def test_a_misspelt_key_gets_a_proposal(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_profiles(own_file(tmp_path, flsh_us="1"))
    assert caught.value.hint == "did you mean flush_us?"


def test_an_unknown_profile_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no device profile 'ssd-pmc'") as caught:
        choose_profile(load_profiles(own_file(tmp_path)), "ssd-pmc")
    assert caught.value.hint.startswith("did you mean ssd-pcm? there are: hdd-7200, hdd-7200-seek,")
    assert caught.value.hint.endswith(", optane-pmem-200, cxl-dram, mine")


def test_every_built_in_profile_has_a_commented_source() -> None:
    text = BUILT_IN.read_text()
    for name in tomllib.loads(text):
        table = text.partition(f"[{name}]\n")[2].partition("\n[")[0]
        assert "# " in table, name
