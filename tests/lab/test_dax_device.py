"""The dax engine on a device-DAX device, in a guest: stores, refusals, what is left out."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.lab.guests import run_script
from tests.replay.program import content, expected_content, record, write_plan
from tracekit.plans.block_plan import DISCARD, FLUSH, FUA, READ, WRITE, WRITE_ZEROES

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab-dax-device")]
SIZE_BYTES = (1 << 20) + 4096
"""What the plan needs: no multiple of the 2 MiB in which the device is mapped."""
MAPPED = """
import mmap, os, sys, time
fd = os.open("/dev/dax0.0", os.O_RDWR)
memory = mmap.mmap(fd, 2 << 20)
os.close(fd)
if sys.argv[1] == "read":
    open(sys.argv[2], "wb").write(memory[: int(sys.argv[3])])
elif sys.argv[1] == "hold":
    print("held", flush=True)
    time.sleep(100)
elif sys.argv[1] == "sign":
    memory[1080:1082] = bytes.fromhex("53EF")
"""
SCRIPT = f"""
umount /mnt/dax
ndctl create-namespace --force --reconfig namespace0.0 --mode devdax --align 2M || exit 9
replay() {{  # NAME ARGUMENTS
  name=$1
  shift
  tracekit-replay a.plan --target /dev/dax0.0 --summary $LAB_OUT/$name.json "$@" \\
    2> $LAB_OUT/$name.err
  echo $? > $LAB_OUT/$name.code
}}
replay dry --engine dax --dry-run
token=$(sed -n 's/.*"confirm_with": *"\\([^"]*\\)".*/\\1/p' $LAB_OUT/dry.json | head -1)
echo "$token" > $LAB_OUT/token
ndctl list -N > $LAB_OUT/namespaces
replay unconfirmed --engine dax
for how in open map; do
  python3 late.py $how $how tracekit-replay slow.plan --target /dev/dax0.0 --engine dax \\
    --write-to "$token" --completions slow.done --summary slow.json
done
python3 mapped.py read $LAB_OUT/before {SIZE_BYTES}
replay written --engine dax --write-to "$token"
python3 mapped.py read $LAB_OUT/after {SIZE_BYTES}
replay other --engine io_uring --write-to "$token"
python3 mapped.py hold > held &
until [ -s held ]; do sleep 0.1; done
replay held --engine dax --write-to "$token"
kill %1; wait
python3 mapped.py sign
replay signed --engine dax --write-to "$token"
python3 mapped.py read $LAB_OUT/last {SIZE_BYTES}
"""
ROWS = [record(WRITE, 8 * n, 8, flags=FUA * (n % 2)) for n in range(257)]
ROWS += [record(WRITE_ZEROES, 512, 512), record(WRITE, 640, 3), record(READ, 512, 512)]
ROWS += [record(FLUSH), record(DISCARD, 0, 8)]


@pytest.fixture(scope="module")
def files(place: Path) -> Path:
    """Replay on such a device in all the ways of the script; return what the guest brought."""
    (place / "share/mapped.py").write_text(MAPPED)
    write_plan(place / "share/a.plan", ROWS)
    slow = [record(WRITE, 0, 8, at_ns=n * 10**7) for n in range(100)]
    write_plan(place / "share/slow.plan", slow)
    shutil.copy(Path(__file__).parent / "in_guest/late.py", place / "share")
    script = f"cp -r $LAB_SHARE /tmp/work; cd /tmp/work; {SCRIPT}"
    return run_script(place, script, "--pmem", "128MiB")


def told(files: Path, name: str) -> tuple[int, str, dict[str, Any]]:
    summary = files / f"{name}.json"
    return (
        int((files / f"{name}.code").read_text()),
        (files / f"{name}.err").read_text(),
        json.loads(summary.read_text()) if summary.exists() else {},
    )


def test_a_device_is_known_by_its_namespace_and_sized_by_sysfs(files: Path) -> None:
    code, _, summary = told(files, "dry")
    assert code == 0
    target = summary["targets"][0]
    namespace = json.loads((files / "namespaces").read_text())[0]
    assert target["kind"] == "dax device"
    assert target["confirm_with"] == namespace["uuid"]
    assert target["size_bytes"] == namespace["size"]


def test_without_its_name_nothing_is_written(files: Path) -> None:
    code, _, summary = told(files, "unconfirmed")
    assert code == 0
    assert summary["counts"]["done"] == 2
    assert not content(files / "before").any()


@pytest.mark.parametrize(
    ("how", "user"), [("open", "the process"), ("map", "a mapping of the process")]
)
def test_who_comes_between_check_and_first_store_is_seen(files: Path, how: str, user: str) -> None:
    found = json.loads((files / f"{how}.late").read_text())
    assert not found["is_late"]
    assert (found["code"], found["is_written"]) == (1, False), found
    assert f"is refused: it is in use by {user}" in found["said"]


def test_stores_are_durable_and_where_the_plan_says(files: Path) -> None:
    code, said, summary = told(files, "written")
    assert code == 0, said
    # All but the discard, which such a device does not have.
    assert summary["counts"]["done"] == len(ROWS) - 1
    assert summary["counts"]["skipped_unsupported"] == 1
    assert summary["engine"]["features"]["map_sync"]
    assert summary["engine"]["features"]["prefaulted"]
    assert (content(files / "after") == expected_content(ROWS[:-1], SIZE_BYTES)).all()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("other", "it needs --engine dax"),
        ("held", "it is in use by the process"),
        ("signed", "it holds ext"),
    ],
)
def test_what_must_not_be_touched_is_refused(files: Path, name: str, reason: str) -> None:
    code, said, _ = told(files, name)
    assert code == 1
    assert reason in said
    # Only the signature has changed since the replay that was allowed.
    expected = content(files / "after").copy()
    expected[1080:1082] = [0x53, 0xEF]
    assert (content(files / "last") == expected).all()
