"""Files on overlays: their bytes are those of a file below, which may be behind the target."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.replay.campaign import loop
from tests.replay.disk import call, image, unchanged
from tests.replay.program import WRITES, Ran, command, play, write_plan

pytestmark = [pytest.mark.root, pytest.mark.alone]
MEMORY = "mount -t tmpfs none memory && mkdir memory/upper memory/work"
RELATIVE = "lowerdir=lower,upperdir=memory/upper,workdir=memory/work"
WHOLE = "lowerdir=$PWD/lower,upperdir=$PWD/memory/upper,workdir=$PWD/memory/work"
OVERLAY = 'mount -t overlay none -o "{}" merged'
BOUND = f"{OVERLAY.format(WHOLE)} && mkdir 'merged/c d' && mount --bind 'merged/c d' merged"
USER = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
held = os.open("merged/t", os.O_RDWR | os.O_CREAT)
os.truncate(held, 1 << 24)
if sys.argv[1:] == ["chroot"]:
    os.chroot(".")
elif sys.argv[1:] == ["pivot"]:
    os.chdir("merged")
    assert libc.syscall(155, b".", b".") == 0 and libc.umount2(b".", 2) == 0
elif sys.argv[1:]:
    assert os.system(sys.argv[1]) == 0
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder in which an overlay can be made; its name has a blank."""
    for name in ("lower", "merged", "memory"):
        (tmp_path / "a b" / name).mkdir(parents=True)
    return tmp_path / "a b"


@contextmanager
def used(place: Path, mount: str, after: str = "") -> Iterator[int]:
    """Yield a process with a file on an overlay of its own mount namespace open."""
    script = f'cd "$0" && {mount} && cd "$0" && exec "$@"'
    line = ["unshare", "--mount", "sh", "-c", script, str(place), sys.executable, "-c", USER]
    with subprocess.Popen(
        [*line, *filter(None, [after])], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            process.kill()


def written(plan: Path, target: Path) -> Ran:
    """Replay on a target that is confirmed by what a first replay says."""
    token = play(plan, command(plan, target=target)).target["confirm_with"]
    return play(plan, command(plan, target=target, write_to=token))


@pytest.fixture
def memory(place: Path, ends: ExitStack) -> None:
    """Mount what the upper directory is on, for all to see."""
    call("sh", "-c", f'cd "$0" && {MEMORY}', place)
    ends.callback(call, "umount", "--lazy", place / "memory")


HIDDEN = f"{MEMORY} && {OVERLAY.format(WHOLE)}"
KINDS = {
    "seen": (OVERLAY.format(WHOLE), ""),
    "relative": (OVERLAY.format(RELATIVE), ""),
    "bound": (BOUND, ""),
    "detached": (OVERLAY.format(WHOLE), "umount --lazy merged"),
    "other root": (OVERLAY.format(WHOLE), "chroot"),
    "container": (OVERLAY.format(WHOLE), "pivot"),
    "hidden": (HIDDEN, ""),
}


@pytest.mark.usefixtures("own_root", "memory")
@pytest.mark.parametrize("kind", KINDS)
def test_who_has_the_overlays_file_open_uses_the_one_below(
    place: Path, ends: ExitStack, kind: str
) -> None:
    # GIVEN a file behind a loop device, and a process with the file open that an overlay makes of
    # it; where the overlay is, or what it is made of, may not be seen from here
    plan, name = write_plan(place / "a.plan", WRITES), "c d/t" if kind == "bound" else "t"
    with used(place, *KINDS[kind]) as pid:
        attach: list[str | Path] = ["losetup", "--find", "--show", place / "memory/upper" / name]
        inside = ["nsenter", f"--mount=/proc/{pid}/ns/mnt"] if kind == "hidden" else []
        device = Path(call(*inside, *attach))
        ends.callback(call, "losetup", "--detach", device)
        with unchanged(device):
            written(plan, device).refused("it is in use by the process", str(pid))
    assert written(plan, device).counts["done"] == 3


@pytest.mark.usefixtures("own_root", "memory")
@pytest.mark.parametrize("kind", ["seen", "bound", "container", "hidden"])
def test_a_file_on_an_overlay_elsewhere_is_no_matter(
    place: Path, ends: ExitStack, kind: str
) -> None:
    # GIVEN a process, as in a container, with a file of its overlay open
    plan, target = write_plan(place / "a.plan", WRITES), loop(ends, image(place / "other"))
    with used(place, *KINDS[kind]):
        ran = written(plan, target)
    assert (ran.code, ran.counts["done"]) == (0, 3), ran.messages


def test_an_upper_directory_that_cannot_be_looked_at_may_have_any_file(
    place: Path, ends: ExitStack
) -> None:
    # GIVEN a process with a file on an overlay open, whose upper directory has an endless path now
    plan, target = write_plan(place / "a.plan", WRITES), loop(ends, image(place / "other"))
    with used(place, HIDDEN, "umount --lazy memory && ln -s upper memory/upper"):
        written(plan, target).refused("it is in use by the process")
    assert written(plan, target).counts["done"] == 3


@pytest.mark.usefixtures("memory")
def test_an_overlay_whose_folder_cannot_be_found_is_refused(place: Path, ends: ExitStack) -> None:
    # GIVEN a file on an overlay that names its upper folder from where it was mounted
    call("sh", "-c", f'cd "$0" && {OVERLAY.format(RELATIVE)}', place)
    ends.callback(call, "umount", place / "merged")
    target = image(place / "merged/t")
    plan = write_plan(place / "a.plan", WRITES)
    # THEN who else uses its bytes is not known
    with unchanged(target):
        ran = play(plan, command(plan, confirmed=target))
        ran.refused("cannot find the file below that of the overlay")
        device = loop(ends, target)
        ran = play(plan, command(plan, target=device))
        assert ran.code == 1, ran.messages
