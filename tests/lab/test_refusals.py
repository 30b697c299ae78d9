"""What the lab refuses before it starts anything."""

from pathlib import Path

import pytest

from tests.lab.guests import lab
from tracekit.errors import TracekitError, UsageError
from tracekit.lab import image
from tracekit.lab import image as lab_build
from tracekit.lab.session import Job


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--disk", "root=1G", "--", "true"], "'root=1G' is no disk"),
        (["run", "--pmem", "1G", "--memory", "512MiB", "--", "true"], "does not fit"),
        (["run", "--pmem", "64M", "--disk", "fs=64M:1ms", "--", "true"], "both given"),
        (["run", "--share", "no-such-folder", "--", "true"], "no-such-folder is not a folder"),
        (["run", "-o", ".", "--", "true"], ". exists already"),
        (["capture", "-o", ".", "--disk", "fs=64M", "--", "true"], ". exists already"),
        (["build", "--package", "--evil"], "'--evil' is not the name of a package"),
    ],
)
def test_a_wrong_use_is_one_line_and_status_2(
    tmp_path: Path, words: list[str], message: str
) -> None:
    ran = lab(*words, folder=tmp_path)
    assert ran.returncode == 2
    assert message in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_trace_needs_a_disk() -> None:
    with pytest.raises(UsageError, match="no disk to trace"):
        Job(("true",), is_traced=True).check()


def test_a_machine_without_qemu_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(image, "ADMIN_PATH", str(tmp_path))
    with pytest.raises(TracekitError, match="qemu-system-x86_64, mke2fs not on PATH: apt install"):
        lab_build.build(on_step=lambda _what: None)


def test_other_packages_are_another_image(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    plain, more = lab_build.find_image(), lab_build.find_image(["gnuplot-nox"])
    assert plain.folder != more.folder
    assert plain.folder.parent == tmp_path / "tracekit/lab"
    assert lab_build.find_image(["bash"]).folder == plain.folder
    assert not plain.is_built
