"""The section on tiers of storage: its numbers by hand, and the page of a simulated trace."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from msgspec import to_builtins

from tests.command_line import invoke
from tests.report.folder import make_folder, numbers
from tracekit.model.tier_study import TierOptions
from tracekit.model.tiers import simulate_tiers
from tracekit.report import charts
from tracekit.report.charts import gain_bars
from tracekit.report.inputs import Inputs
from tracekit.report.page import SECTIONS, report
from tracekit.report.section import Section
from tracekit.report.sections import tiers
from tracekit.report.sections.front import reproduce
from tracekit.report.sections.tiers import draw_key
from tracekit.store import TraceFolder


def configuration(mix: str, iops_per_price: float) -> dict[str, Any]:
    return {"mix": mix, "iops_per_price": iops_per_price}


ANSWER: dict[str, Any] = {
    "price_unit": "relative",
    "tiers": [{"name": "pcm"}, {"name": "flash"}, {"name": "disk"}],
    "configurations": {
        "static": {
            "best": configuration("13 % pcm, 87 % flash", 2117.1),
            "best with pcm": configuration("13 % pcm, 87 % flash", 2117.1),
            "best without pcm": configuration("95 % flash, 5 % disk", 1868.7),
        }
    },
}


def test_the_gain_is_that_of_the_best_mixes() -> None:
    assert numbers(tiers.describe_surface(ANSWER, "static")) == [
        *("2,117", "13 %", "87 %"),
        *("1,869", "95 %", "5 %"),
    ]
    assert numbers([tiers.describe_gain(ANSWER, "static")]) == ["13 %", "87 %", "13.3 %"]


def test_prices_in_a_currency_are_on_the_axis() -> None:
    table = pd.DataFrame(
        {"configuration": ["best"], "method": ["static"], "iops_per_price": [2117.1]}
    )
    euro = ANSWER | {"price_unit": "EUR per GB"}
    for one, title in ((euro, "IOPS per EUR/GB"), (ANSWER, "IOPS for the price")):
        shown = tiers.bars(table).assign(unit=tiers.price_unit(one))
        for size in (charts.WIDE, charts.NARROW):
            assert draw_key(shown, size).axes[0].get_xlabel() == title


def test_the_page_of_a_what_if_has_its_currency_in_every_figure_of_prices(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "trace", stages=())
    what_if = tmp_path / "euro.toml"
    what_if.write_text(
        'currency = "EUR"\n[price_per_gb]\nssd-pcm = 2\nssd-emlc = 0.5\nhdd-15k = 0.1\n'
    )
    simulate_tiers(folder, TierOptions(extent_bytes=65536, step_percent=50, what_if=what_if))
    report(folder, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "IOPS per EUR/GB of every mix, static" in text
    assert "IOPS for the price of every mix" not in text
    assert text.count("IOPS per EUR/GB") > 4


def test_the_surface_keeps_the_best_of_the_other_tiers() -> None:
    # GIVEN four tiers, so that a pair of shares stands for several mixes
    table = pd.DataFrame(
        {
            "share_ratio": [[0.5, 0.5, 0.0, 0.0], [0.5, 0.0, 0.5, 0.0], [0.5, 0.0, 0.0, 0.5]],
            "iops_per_price": [3.0, 1.0, 2.0],
        }
    )
    # WHEN it is seen from above, THEN the best of each pair remains
    found = tiers.surface(table, ANSWER, method="static")
    assert found[["first_ratio", "second_ratio", "iops_per_price"]].to_numpy().tolist() == [
        [0.5, 0.0, 2.0],
        [0.5, 0.5, 3.0],
    ]


def test_skew_says_what_a_fifth_takes() -> None:
    table = pd.DataFrame(
        {
            "role": ["all"] * 5,
            "operation": ["read"] * 5,
            "capacity_ratio": [0.2, 0.4, 0.6, 0.8, 1.0],
            "traffic_ratio": [0.83, 0.9, 0.95, 1.0, 1.0],
        }
    )
    assert numbers(tiers.describe_skew(table)) == ["20.0 %", "83.0 %"]


def test_sensitivity_has_both_ends() -> None:
    table = pd.DataFrame(
        {
            "tier": ["pcm", "pcm"],
            "parameter": ["price_per_gb", "price_per_gb"],
            "factor": [0.5, 2.0],
            "method": ["static", "static"],
            "gain_ratio": [0.5, -0.25],
        }
    )
    assert numbers(tiers.describe_sensitivity(table, ANSWER)) == [
        *("−25.0 %", "2"),  # noqa: RUF001
        *("50.0 %", "0.5"),
    ]


def test_a_simulation_that_nobody_asked_for_is_not_missing(parsed: TraceFolder) -> None:
    assert tiers.tiers in SECTIONS
    assert tiers.tiers(Inputs(parsed)) is None


@pytest.mark.parametrize("names", [(), ("ssd-pcm", "hdd-15k")])
def test_a_simulated_trace_has_the_section(tmp_path: Path, names: tuple[str, ...]) -> None:
    # GIVEN a trace with dynamic tiering of three tiers, or of two that have no surface
    folder = make_folder(tmp_path / "trace", stages=())
    options = TierOptions(
        extent_bytes=65536, step_percent=10, tiers=names, is_dynamic=True, window_s=1.0
    )
    answer = to_builtins(simulate_tiers(folder, options))
    # WHEN its report is written
    report(folder, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    # THEN the answer and the figures are there
    assert answer["headline"][0] in text
    for figure in ("tiers-key", "tiers-skew", "tiers-sensitivity"):
        assert f'id="figure-{figure}"' in text
    for method in ("static", "dynamic"):
        assert (f'id="figure-tiers-surface-{method}"' in text) == (not names)


def test_how_to_reproduce_names_the_simulation_with_its_options(tmp_path: Path) -> None:
    # GIVEN a simulation that was asked with options, and one of an older release
    folder = make_folder(tmp_path / "trace", stages=())
    words = ["--extent", "64KiB", "--step", "50", "--vary", "extent_bytes=2"]
    command = ["simulate", "tiers", str(folder.path), *words]
    assert invoke(*command, "--json").exit_code == 0
    (folder.path / "simulations" / "buffer.json").write_text('{"headline": []}')
    # WHEN the report says how it was made
    section = reproduce(Inputs(folder))
    # THEN both commands are there, with what is known of them
    assert isinstance(section, Section)
    commands = section.parts["commands"]
    assert "tracekit simulate buffer trace" in commands
    assert f"tracekit simulate tiers trace {' '.join(words)}" in commands


@pytest.mark.parametrize("size", [charts.WIDE, charts.NARROW])
@pytest.mark.parametrize("gains", [[-0.874, -0.014], [0.336, 0.5], [-0.4, 0.3], [0.0]])
def test_numbers_beside_the_bars_of_gains_stay_within_the_axes(
    size: charts.Size, gains: list[float]
) -> None:
    # GIVEN losses, gains, both or neither
    kinds = ["size of an extent × 0.5, dynamic" for _ in gains]  # noqa: RUF001
    table = pd.DataFrame({"gain_ratio": gains, "kind": kinds, "role": "base"})
    # WHEN they are drawn for a desktop or a phone
    drawn = gain_bars(table, size, x_title="gain by the first tier")
    drawn.draw_without_rendering()
    # THEN no number lies on the names of the bars or beyond the other end
    axes = drawn.axes[0]
    box = axes.get_window_extent()
    numbers = [text.get_window_extent() for text in axes.texts]
    assert len(numbers) == len(gains)
    names = [label.get_text() for label in axes.get_yticklabels()]
    two_lines = "size of an extent\n×\u00a00.5, dynamic"  # noqa: RUF001
    assert names == ([two_lines] if size.is_narrow else kinds[:1]) * len(gains)
    assert all(box.x0 <= number.x0 and number.x1 <= box.x1 for number in numbers)
