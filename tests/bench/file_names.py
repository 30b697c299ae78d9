"""The share of requests whose file `capture` names right, against what the program wrote itself.

Each page that the program writes holds the number of its file and its place there. The pages are
read from the disk afterwards, so that whose a request's sectors are comes from their content.
"""

import os
import shutil
import struct
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from tests.bench.harness import Bench, needs_root
from tests.capture.machine import TRACER, run_capture, tracer_turn
from tests.recipes.three_roles import loop_disk, mounted, run
from tracekit.api.start import parse

SIZE_BYTES = 400 << 20
PAGE, TAG = 4096, b"page of a file: "
MAKE = {
    "ext4": ("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"),
    "XFS": ("mkfs.xfs", "-q"),
    "btrfs": ("mkfs.btrfs", "-q", "-d", "single", "-m", "single"),
}
KINDS = {"ext4": "ext4", "XFS": "XFS", "btrfs": "btrfs", "overlay on ext4": "ext4"}
PROGRAM = """
import os, random, struct, sys
folder, files = sys.argv[1], int(sys.argv[2])
TAG, PAGE = b"page of a file: ", 4096
rng = random.Random(5)
def page(number, place):
    return (TAG + struct.pack("<QQ", number, place)).ljust(PAGE, b".")
def write(number, name, places, *, flags=0):
    file = os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT | flags)
    for place in places:
        os.pwrite(file, page(number, place), place * PAGE)
        if rng.random() < 0.1:
            os.fsync(file)
    os.fsync(file)
    os.close(file)
begin = 0 if sys.argv[3] == "before" else files
for number in range(begin, begin + files):
    write(number, f"file{number}", range(rng.randrange(1, 40)))
if sys.argv[3] == "before":
    os._exit(0)
for number in range(0, files, 3):  # again, in their places, and behind their ends
    write(number, f"file{number}", range(0, 50, 7))
for number in range(1, 2 * files, 9):
    os.unlink(f"{folder}/file{number}")
for number in range(2, 2 * files, 9):
    os.rename(f"{folder}/file{number}", f"{folder}/renamed{number}")
os.sync()
open("/proc/sys/vm/drop_caches", "w").write("3")
for name in sorted(os.listdir(folder)):
    if name != "lost+found":
        open(f"{folder}/{name}", "rb").read()
"""


def bench_file_names(out: Bench, *, files: int = 300) -> None:
    """Files written, changed, deleted, renamed and read, on four kinds of file systems."""
    needs_root()
    for kind, name in KINDS.items():
        if shutil.which(MAKE[name][0]) is None:
            out.note(f"{kind}: needs {MAKE[name][0]}")
            continue
        with tempfile.TemporaryDirectory(dir=out.folder) as work:
            out.row(kind, **_counts(Path(work), kind, make=MAKE[name], files=files))


def _counts(work: Path, kind: str, *, make: tuple[str, ...], files: int) -> dict[str, int]:
    """Return requests by whether they have their file's name."""
    words = (sys.executable, "-c", PROGRAM)
    with loop_disk(work / "disk.img", SIZE_BYTES) as device, ExitStack() as undo:
        run(*make, device)
        point = undo.enter_context(mounted(device, work / "point"))
        folder = home = point
        if kind.startswith("overlay"):
            home = point / "upper"
            for part in ("lower", "upper", "work"):
                (point / part).mkdir()
            layers = f"lowerdir={point}/lower,upperdir={home},workdir={point}/work"
            folder = work / "union"
            folder.mkdir()
            run("mount", "-t", "overlay", "overlay", "-o", layers, str(folder))
            undo.callback(run, "umount", str(folder))
        run(*words, str(folder), str(files), "before")
        run("sync", "-f", str(folder))
        with tracer_turn():
            command = (*words, str(folder), str(files), "during")
            run_capture(device, *TRACER, "-o", work / "capture", "--", *command)
        undo.close()
        return _judged(work, device, home)


UNNAMED = (
    "select sector, null, null from requests"
    " where operation in ('read', 'write') and length_bytes > 0 order by request_id"
)
NAMED = (
    "select sector, path, file_sector from requests left join files_of_requests using (request_id)"
    " where operation in ('read', 'write') and length_bytes > 0 order by request_id"
)


def _judged(work: Path, device: str, home: Path) -> dict[str, int]:
    trace = parse(work / "capture", work / "trace")
    has_map = (work / "trace/file_extents.parquet").exists()
    rows = trace.sql(NAMED if has_map else UNNAMED).fetchall()
    found: Counter[str] = Counter()
    with Path(device).open("rb") as disk:
        for sector, name, file_sector in rows:
            content = os.pread(disk.fileno(), PAGE, sector * 512)
            found[_verdict(content, name, file_sector, home)] += 1
    return {one: found[one] for one in VERDICTS}


VERDICTS = ("right", "unknown", "wrong", "metadata", "metadata_named")


def _verdict(content: bytes, name: str | None, file_sector: int | None, home: Path) -> str:
    """Return what a request's name is worth, by the page at its first sector."""
    if not content.startswith(TAG):
        return "metadata" if name is None else "metadata_named"
    if name is None:
        return "unknown"
    number, place = struct.unpack_from("<QQ", content, len(TAG))
    # Of a file that is made and renamed meanwhile, the name that it has in the end is right, too.
    names = (f"{home}/file{number}", f"{home}/renamed{number}")
    return "right" if name in names and file_sector == place * PAGE // 512 else "wrong"
