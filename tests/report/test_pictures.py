"""What a reader sees first, compared with pictures that were looked at; Firefox beside Chromium.

Pictures are kept at a quarter of their size, so that fonts may be smoothed otherwise. After a
change that is meant: `python -m tests.report.test_pictures`, and look at them.
"""

import io
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.report.golden import make_full_folder
from tests.report.test_browser import ARGUMENTS, CHROMIUM, DESKTOP, PAPER, PHONE
from tracekit.report.page import report

PICTURES = Path(__file__).with_name("pictures")
FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
SCALE = 4
# Of the largest difference of a colour, 255: on average, and in a spot of 32 pixels' width.
AVERAGE_MAX, SPOT_MAX = 2.0, 40.0
VIEWS: dict[str, tuple[tuple[int, int], dict[str, str], str | None]] = {
    "desktop-light": (DESKTOP, {"color_scheme": "light"}, None),
    "desktop-dark": (DESKTOP, {"color_scheme": "dark"}, None),
    "phone": (PHONE, {"color_scheme": "light"}, None),
    "paper": (PAPER, {"color_scheme": "light", "media": "print"}, None),
    "figure-light": (DESKTOP, {"color_scheme": "light"}, "#capacity figure"),
    "figure-dark": (DESKTOP, {"color_scheme": "dark"}, "#capacity figure"),
}


def small(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png)).convert("RGB").reduce(SCALE)


def pictures_of(path: Path) -> Iterator[tuple[str, Image.Image]]:
    """Yield each view of the page as Chromium shows it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        for name, (size, media, part) in VIEWS.items():
            page = browser.new_page(viewport={"width": size[0], "height": size[1]})
            page.emulate_media(**media)  # type: ignore[arg-type]
            page.goto(path.as_uri())
            shown: Any = page.locator(part).first if part else page
            yield name, small(shown.screenshot())
            page.close()


def differences(one: Image.Image, other: Image.Image) -> tuple[float, float]:
    """Return the average difference and that of the worst spot, of 255."""
    assert one.size == other.size
    apart = np.abs(np.asarray(one, dtype=float) - np.asarray(other, dtype=float)).mean(axis=2)
    height, width = (side // 8 * 8 for side in apart.shape)
    spots = apart[:height, :width].reshape(height // 8, 8, width // 8, 8).mean(axis=(1, 3))
    return float(apart.mean()), float(spots.max())


pytestmark = [
    pytest.mark.browser,
    pytest.mark.xdist_group("report"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]


@pytest.fixture(scope="module")
def pictures(full: Path) -> dict[str, Image.Image]:
    return dict(pictures_of(full))


def test_the_page_looks_as_it_was_seen(pictures: dict[str, Image.Image]) -> None:
    apart = {}
    for name, picture in pictures.items():
        seen = Image.open(PICTURES / f"{name}.png").convert("RGB")
        average, spot = differences(picture, seen)
        if average > AVERAGE_MAX or spot > SPOT_MAX:
            apart[name] = (average, spot)
    assert list(pictures) == list(VIEWS)
    assert apart == {}


@pytest.mark.skipif(FIREFOX is None, reason="Firefox is not installed")
def test_firefox_shows_the_same(
    full: Path, pictures: dict[str, Image.Image], tmp_path: Path
) -> None:
    taken = tmp_path / "firefox.png"
    command = [str(FIREFOX), "--headless", "--profile", str(tmp_path)]
    command += [f"--window-size={DESKTOP[0]},{DESKTOP[1]}", f"--screenshot={taken}", full.as_uri()]
    subprocess.run(command, check=True, timeout=120, capture_output=True)
    average, _ = differences(small(taken.read_bytes()), pictures["desktop-light"])
    assert average <= 2 * AVERAGE_MAX


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        made = report(make_full_folder(Path(place) / "trace"), Path(place) / "report.html")
        for view, image in pictures_of(made.path):
            image.save(PICTURES / f"{view}.png", optimize=True)
