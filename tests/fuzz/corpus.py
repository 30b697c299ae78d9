"""The inputs of each fuzzer: `corpus/TARGET.tar.xz`, the same bytes for the same inputs.

python -m tests.fuzz.corpus unpack decode FOLDER
python -m tests.fuzz.corpus add decode FILE_OR_FOLDER...
"""

import io
import sys
import tarfile
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"
TARGETS = ("calls", "columns", "decode", "octf", "texts")


def archive(target: str) -> Path:
    return FOLDER / f"{target}.tar.xz"


def read(target: str) -> dict[str, bytes]:
    """Return the inputs by name, in the order of names."""
    with tarfile.open(archive(target)) as packed:
        files = [(member.name, packed.extractfile(member)) for member in packed]
        return {name: file.read() for name, file in files if file is not None}


def add(target: str, inputs: dict[str, bytes]) -> int:
    """Pack the inputs beside those that are there; return how many are new or changed."""
    present = read(target) if archive(target).exists() else {}
    changed = sum(present.get(name) != data for name, data in inputs.items())
    if changed:
        everything = sorted((present | inputs).items())
        with tarfile.open(archive(target), "w:xz", format=tarfile.USTAR_FORMAT) as packed:
            for name, data in everything:
                member = tarfile.TarInfo(name)
                member.size = len(data)
                packed.addfile(member, io.BytesIO(data))
    return changed


def main() -> None:
    action, target, *places = sys.argv[1:]
    paths = list(map(Path, places))
    if action == "unpack":
        paths[0].mkdir(parents=True, exist_ok=True)
        for name, data in read(target).items():
            (paths[0] / name).write_bytes(data)
    else:
        found = [file for path in paths for file in (path.iterdir() if path.is_dir() else [path])]
        count = add(target, {file.name: file.read_bytes() for file in found})
        sys.stdout.write(f"{archive(target).name}: {count} inputs added\n")


if __name__ == "__main__":
    main()
