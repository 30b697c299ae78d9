"""What the answer says of itself: why, at what cost, and how far hindsight helps it."""

import json
import random
from pathlib import Path

import pytest

from tests.command_line import succeed
from tests.recommend.traces import BLOCK, DEVICES, oltp, recommended
from tests.simulate.placement_models import Request, model, write_trace
from tracekit.devices import load_profiles
from tracekit.units import format_size


def halves_of(seed: int) -> list[list[Request]]:
    """Return two halves of a trace: of all, blocks 9, 10 and 0 are hottest, of the first 9, 8, 7.

    Block 10 is in the second half only.
    """
    counts = [
        {**{block: block + 1 for block in range(9)}, 9: 95},
        {**{block: 20 - 2 * block for block in range(10)}, 10: 30},
    ]
    chance = random.Random(seed)  # noqa: S311 - a repeatable trace
    halves = []
    for half in counts:
        blocks = [block for block, count in half.items() for _ in range(count)]
        chance.shuffle(blocks)
        halves.append([Request("fs", 80 * block) for block in blocks])
    assert len(halves[0]) == len(halves[1])
    return halves


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("unit", ["", "extent=4KiB"])
def test_an_answer_is_scored_on_requests_that_did_not_choose_it(
    seed: int, unit: str, tmp_path: Path
) -> None:
    # GIVEN blocks that are hot in one half of the requests and not in the other
    halves = halves_of(seed)
    result = recommended(
        tmp_path, halves[0] + halves[1], capacities_bytes=(3 * BLOCK,), unit=unit, base="plain"
    )
    # THEN both choices are scored on the second half, as the model of the tests does
    disk, nvm = (load_profiles(DEVICES)[name] for name in ("plain", "nvm"))
    took = [
        model(halves[1], {("sda", 10 * block) for block in chosen}, (disk, nvm)).service
        for chosen in ((), (9, 10, 0), (9, 8, 7))
    ]
    found = result["held_out"]
    assert found["requests"] == len(halves[1])
    assert found["gain_ratio"] == pytest.approx(1 - took[1] / took[0])
    assert found["chosen_before_ratio"] == pytest.approx(1 - took[2] / took[0])
    assert found["units"] == ("extents of 4 KiB" if unit else None)
    # AND the difference is among the first lines
    said = f"the second half of the requests they save {found['gain_ratio']:.1%}; as many"
    assert any(said in row["text"] for row in result["rows"] if row["what"] == "caution")
    assert any(said in line for line in result["headline"])


def test_of_units_that_are_not_placed_nothing_is_scored(tmp_path: Path) -> None:
    result = recommended(tmp_path, oltp(), capacities_bytes=(BLOCK,), unit="extent=8KiB")
    assert (result["units"]["placed_count"], result["held_out"]) == (0, None)


def test_a_role_that_is_placed_as_a_whole_is_known_before(tmp_path: Path) -> None:
    result = recommended(tmp_path, oltp(), capacities_bytes=(1 << 30,))
    assert result["held_out"]["gain_ratio"] == result["held_out"]["chosen_before_ratio"] > 0


def test_the_rows_say_why_and_what_it_costs(tmp_path: Path) -> None:
    write_trace(tmp_path, oltp())
    priced = tmp_path / "priced.toml"
    lines = 'price_usd_per_gb = 3.0\nprice_date = "2020-01"\ncapacity_gb = 500\n'
    priced.write_text(DEVICES.read_text().replace("[plain]", f"{lines}[plain]"))
    words = ["recommend", str(tmp_path), "--base", "disk", "--nvm", "nvm", "--capacity", "400K"]
    free = json.loads(succeed(*words, "--profiles", str(DEVICES), "--json").stdout)
    result = json.loads(succeed(*words, "--profiles", str(priced), "--json").stdout)

    texts = [row["text"] for row in result["rows"] if row["what"] == "why"]
    total = result["answer"]["base_elapsed_ns"]
    names = {"fs": "the file system", "journal": "the journal"}
    for role, one in result["roles"].items():
        share = f"{one['base_elapsed_ns'] / total * 100:.1f}%"
        assert f"{names[role]} {share} with {format_size(one['touched_bytes'])}" in texts[0]
    for one in result["role_sets"]:
        if one["placement"] in names:
            alone = f"{one['gain_ratio'] * 100:.1f}% less"
            assert f"{names[one['placement']]} {alone}" in texts[1]
    costs = [
        {row["what"]: row["text"] for row in found["rows"]}["cost"] for found in (free, result)
    ]
    # 400 KiB are 409,600 bytes, of 3 USD a GB of 10^9
    assert costs == [
        "not known: no source gives a price of nvm",
        "0.00123 USD at 3 USD a GB, 2020-01; one of 500 GB 1,500 USD",
    ]


def test_what_to_do_next_is_said_of_a_placement(tmp_path: Path) -> None:
    write_trace(tmp_path / "trace", oltp())
    words = ["recommend", str(tmp_path / "trace"), "--base", "disk", "--nvm", "nvm"]
    words += ["--profiles", str(DEVICES), "--capacity"]
    script = tmp_path / "carry it.sh"
    shown = [
        succeed(*words, *more).stdout.splitlines()[-1]
        for more in (("400K",), ("400K", "--script", str(script)), ("0",))
    ]
    # THEN it is the option, the script that was written, or nothing where nothing is placed
    assert shown[0] == "tracekit recommend --script FILE writes the commands that carry it out"
    assert shown[1] == f"sh '{script}' prints the commands, and what to set"
    assert "script" not in shown[2]
    assert script.is_file()
