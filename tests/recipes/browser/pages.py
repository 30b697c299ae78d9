"""Generate a site of pages with pictures, and serve it with the right to keep it in a cache.

`pages.py build FOLDER PAGES PICTURES` makes it; `pages.py serve FOLDER PORT` serves it.
"""

import http.server
import random
import struct
import sys
import zlib
from functools import partial
from pathlib import Path

WORDS = ["fast", "memory", "holds", "what", "a", "disk", "would", "take", "long", "to", "find"]


def picture(chance: random.Random, side: int) -> bytes:
    """Return a PNG of noise, which no compression makes small."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        whole = kind + content
        return struct.pack(">I", len(content)) + whole + struct.pack(">I", zlib.crc32(whole))

    rows = b"".join(b"\0" + chance.randbytes(3 * side) for _ in range(side))
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    pixels = zlib.compress(rows, 0)
    signature = b"\x89PNG\r\n\x1a\n"
    return signature + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def build(folder: Path, pages: int, pictures: int) -> None:
    """Make index.html with all pages in frames, and each page with text and pictures."""
    chance = random.Random(1)  # noqa: S311 - a picture is no secret
    folder.mkdir()
    frames = []
    for page in range(pages):
        parts = []
        for number in range(pictures):
            name = f"{page}-{number}.png"
            # Many small pictures and a few large ones, as pages have.
            side = min(16 + int(chance.paretovariate(1.2) * 24), 400)
            (folder / name).write_bytes(picture(chance, side))
            parts.append(f"<p>{' '.join(chance.choices(WORDS, k=60))}</p><img src={name}>")
        (folder / f"{page}.html").write_text("<!doctype html>" + "\n".join(parts))
        frames.append(f"<iframe src={page}.html></iframe>")
    (folder / "index.html").write_text("<!doctype html>" + "\n".join(frames))


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files that a browser may keep for a day."""

    def end_headers(self) -> None:
        """Add the right to keep."""
        self.send_header("Cache-Control", "max-age=86400")
        super().end_headers()


def main() -> None:
    """Read the command line."""
    action, folder = sys.argv[1], Path(sys.argv[2])
    numbers = [int(word) for word in sys.argv[3:]]
    if action == "build":
        build(folder, *numbers)
    else:
        handler = partial(Handler, directory=str(folder))
        http.server.ThreadingHTTPServer(("127.0.0.1", numbers[0]), handler).serve_forever()


if __name__ == "__main__":
    main()
