"""Settings are given back, also by another process, and also when one of them resists."""

import os
from pathlib import Path

import pytest

from tests.capture import machine
from tracekit.capture import recovery
from tracekit.capture.kernel_state import Settings
from tracekit.capture.recovery import only_capture
from tracekit.capture.tracefs import mount, tracefs_folder
from tracekit.errors import TracekitError


def make(folder: Path, **values: str) -> dict[str, Path]:
    for name, value in values.items():
        (folder / name).write_text(value)
    return {name: folder / name for name in values}


def test_restore_gives_back_in_reverse_order(tmp_path: Path) -> None:
    # GIVEN a setting that is changed twice, and one that is changed once
    paths = make(tmp_path, clock="[local] mono", size="7 (expanded: 1408)")
    settings = Settings(tmp_path / "state.json")
    settings.change({paths["clock"]: "mono", paths["size"]: "4096"})
    settings.change({paths["clock"]: "tai"})
    assert (paths["clock"].read_text(), paths["size"].read_text()) == ("tai", "4096")
    # WHEN they are given back
    settings.restore()
    # THEN the first values are there, and no state is left
    assert (paths["clock"].read_text(), paths["size"].read_text()) == ("local", "1408")
    assert not (tmp_path / "state.json").exists()


def test_a_number_of_names_that_the_kernel_rounded_up_can_be_given_back(tmp_path: Path) -> None:
    # GIVEN what the kernel shows after its largest value, 32768, was written
    paths = make(tmp_path, saved_cmdlines_size="45874\n")
    settings = Settings(tmp_path / "state.json")
    settings.change({paths["saved_cmdlines_size"]: "16384"})
    settings.restore()
    # THEN the value given back is one that it takes
    assert paths["saved_cmdlines_size"].read_text() == "32768"


def test_the_next_capture_repairs_what_a_killed_one_left(tmp_path: Path) -> None:
    # GIVEN a capture that died after it changed a setting and made a folder
    paths = make(tmp_path, tracer="nop")
    leftover = tmp_path / ".trace.part"
    leftover.mkdir()
    state = tmp_path / "state"
    state.mkdir()
    dead = Settings(state / "state.json")
    dead.leave(leftover)
    dead.change({paths["tracer"]: "blk"})
    # WHEN another begins
    with only_capture(tmp_path, state) as (_, notes):
        # THEN both are as they were
        assert notes == ["gave back the kernel settings of a capture that was killed"]
        assert paths["tracer"].read_text() == "nop"
        assert not leftover.exists()
    assert not (state / "state.json").exists()


def test_a_folder_in_the_place_of_the_left_one_is_not_deleted(tmp_path: Path) -> None:
    # GIVEN a killed capture whose folder was replaced by another one of its name
    leftover = tmp_path / ".trace.part"
    leftover.mkdir()
    Settings(tmp_path / "state.json").leave(leftover)
    leftover.rename(tmp_path / "elsewhere")
    leftover.mkdir()
    # WHEN another begins, THEN it stays
    with only_capture(tmp_path, tmp_path) as (_, notes):
        assert len(notes) == 1
        assert leftover.exists()


@pytest.mark.parametrize("content", [b"", bytes(50), b'{"changed": [["/x"]], "held": []}'])
def test_a_torn_state_stops_no_capture(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state.json").write_bytes(content)
    with only_capture(tmp_path, tmp_path) as (_, notes):
        assert "what a killed capture left changed is lost" in notes[0]
    with only_capture(tmp_path, tmp_path) as (_, notes):
        assert notes == []


@pytest.mark.parametrize("kind", ["link", "writable"])
def test_a_state_folder_of_others_is_rejected(tmp_path: Path, kind: str) -> None:
    state, other = tmp_path / "state", tmp_path / "other"
    other.mkdir()
    if kind == "link":
        state.symlink_to(other)
    else:
        state.mkdir()
        state.chmod(0o777)
    refused = pytest.raises(TracekitError, match="is not a folder of this user alone")
    with refused, only_capture(tmp_path, state):
        pass


def test_without_a_killed_capture_nothing_is_cleaned_up(tmp_path: Path) -> None:
    with only_capture(tmp_path, tmp_path / "state") as (_, notes):
        assert notes == []


def test_what_the_kernel_never_takes_stops_only_one_capture(tmp_path: Path) -> None:
    # GIVEN a killed capture with a setting that cannot be given back
    paths = make(tmp_path, tracer="nop")
    dead = Settings(tmp_path / "state.json")
    dead.change({paths["tracer"]: "blk"})
    paths["tracer"].unlink()
    paths["tracer"].mkdir()
    # WHEN two captures follow
    with only_capture(tmp_path, tmp_path) as (_, notes):
        # THEN the first names it, and the second begins afresh
        assert len(notes) == 2
        assert "tracer: cannot be set to nop: Is a directory" in notes[1]
    with only_capture(tmp_path, tmp_path) as (_, notes):
        assert notes == []


def test_a_setting_whose_device_went_away_is_forgotten(tmp_path: Path) -> None:
    paths = make(tmp_path, enable="0", tracer="nop")
    settings = Settings(tmp_path / "state.json")
    settings.change({paths["tracer"]: "blk"})
    settings.change({paths["enable"]: "1"})
    # GIVEN a device that is no longer there
    folder_gone = tmp_path / "gone"
    settings._changed[1] = (folder_gone / "enable", "0")
    # WHEN the settings are given back, THEN the others are
    settings.restore()
    assert paths["tracer"].read_text() == "nop"


def test_a_setting_that_resists_is_named_and_tried_again(tmp_path: Path) -> None:
    paths = make(tmp_path, tracer="nop", clock="local")
    settings = Settings(tmp_path / "state.json")
    settings.change({paths["tracer"]: "blk", paths["clock"]: "mono"})
    # GIVEN a setting that cannot be written for now
    paths["tracer"].unlink()
    paths["tracer"].mkdir()
    # WHEN the settings are given back
    with pytest.raises(TracekitError, match="tracer: cannot be set to nop: Is a directory"):
        settings.restore()
    # THEN the other is, and the state keeps the one that is left
    assert paths["clock"].read_text() == "local"
    paths["tracer"].rmdir()
    paths["tracer"].write_text("blk")
    again = Settings.of_dead_capture(tmp_path / "state.json")
    assert again is not None
    again.restore()
    assert paths["tracer"].read_text() == "nop"


def test_one_capture_at_a_time(tmp_path: Path) -> None:
    refused = pytest.raises(
        TracekitError, match=rf"another capture is running \(pid {os.getpid()}\)"
    )
    state = tmp_path / "state"
    with only_capture(tmp_path, state), refused, only_capture(tmp_path, state):
        pass


def test_one_capture_at_a_time_also_from_another_container(tmp_path: Path) -> None:
    # GIVEN a capture whose state is in a folder that the other does not see
    refused = pytest.raises(TracekitError, match=r"another capture is running$")
    with only_capture(tmp_path, tmp_path / "a"), refused, only_capture(tmp_path, tmp_path / "b"):
        pass


def test_a_later_process_with_the_number_of_a_killed_capture_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    monkeypatch.setattr(recovery, "STATE_FOLDER", state)
    monkeypatch.setattr(recovery, "mounted_folder", lambda: tmp_path)
    with only_capture(tmp_path, state):
        assert recovery.running() == os.getpid()
    # WHEN a capture was killed, and this process got its number
    (state / "pid").write_text(str(os.getpid()))
    assert recovery.running() is None


def test_the_state_is_root_s_alone(tmp_path: Path) -> None:
    # GIVEN a folder of an older version, which others may enter, and a umask that closes nothing
    state = tmp_path / "state"
    state.mkdir(mode=0o755)
    before = os.umask(0)
    try:
        with only_capture(tmp_path, state) as (settings, _):
            settings.change({})
            # THEN nobody else can enter it or read its files
            modes = {path.name: path.stat().st_mode & 0o777 for path in [state, *state.iterdir()]}
    finally:
        os.umask(before)
    assert modes == {"state": 0o700, "pid": 0o600, "state.json": 0o600}


def test_no_link_in_the_place_of_a_file_of_the_state_is_followed(tmp_path: Path) -> None:
    precious, state = tmp_path / "precious", tmp_path / "state"
    precious.write_text("root's")
    state.mkdir()
    (state / "pid").symlink_to(precious)
    refused = pytest.raises(OSError, match="Too many levels of symbolic links")
    with refused, only_capture(tmp_path, state):
        pass
    assert precious.read_text() == "root's"


@pytest.mark.root
def test_a_folder_of_somebody_else_holds_no_state(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    os.chown(state, 12345, 12345)
    refused = pytest.raises(TracekitError, match=f"{state} is not a folder of this user alone")
    with refused, only_capture(tmp_path, state):
        pass


@pytest.mark.root
def test_what_another_command_has_mounted_meanwhile_is_no_error(tmp_path: Path) -> None:
    machine.skip_unless_it_can_trace()
    # GIVEN a file system of the kernel that is mounted, WHEN it is mounted once more
    # THEN it is there, and somebody else's
    assert mount("tracefs", tracefs_folder()) is False
    # AND what is not there is told
    with pytest.raises(TracekitError, match=r"tracefs cannot be mounted on .*no-such-folder"):
        mount("tracefs", tmp_path / "no-such-folder")
