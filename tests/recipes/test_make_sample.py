"""The recipe of the sample trace still works: a short run of it."""

import subprocess
from pathlib import Path

import pytest

from tests.capture.machine import read_layout, skip_unless_it_can_trace, tracer_turn
from tests.recipes.describe import describe
from tests.recipes.make_sample import GROUP, RECIPES, make
from tests.recipes.memory_limit import V1, V2

pytestmark = pytest.mark.root


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_short_run_gives_a_trace_of_three_roles_and_leaves_nothing(
    name: str, tmp_path: Path
) -> None:
    skip_unless_it_can_trace()
    output = tmp_path / "sample"
    with tracer_turn():
        # WHEN the recipe is run for a second
        make(name, output, scratch=tmp_path, arguments=["--seconds", "1"])
    # THEN there is a capture with reads and writes of the load's processes
    layout = read_layout(output)
    assert [part["role"] for part in layout["partitions"]] == ["fs", "journal", "swap"]
    assert layout["capture"]["records"] > 500
    assert any(process.startswith(name) for process in layout["processes"].values())
    assert "| Q queued |" in "\n".join(describe(output))
    # AND neither disk, nor mount, nor control group is left
    assert list(tmp_path.iterdir()) == [output]
    loops = subprocess.run(["losetup", "--all"], capture_output=True, text=True, check=True)
    assert str(tmp_path) not in loops.stdout
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    assert not (V1 / GROUP).exists()
    assert not (V2 / GROUP).exists()


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_load_that_fails_leaves_nothing_either(name: str, tmp_path: Path) -> None:
    skip_unless_it_can_trace()
    with tracer_turn(), pytest.raises(subprocess.CalledProcessError):
        # WHEN the load does not know its option
        make(name, tmp_path / "sample", scratch=tmp_path, arguments=["--no-such-option"])
    # THEN the capture that was made is there, and says in its exit that it is partial
    assert [path.name for path in tmp_path.iterdir()] == ["sample"]
    loops = subprocess.run(["losetup", "--all"], capture_output=True, text=True, check=True)
    assert str(tmp_path) not in loops.stdout
