"""The page of a set in a browser: quiet, by its strict policy, with and without scripts."""

from collections.abc import Iterator
from typing import Any

import pytest

import tracekit as tk
from tests.report.test_browser import ARGUMENTS, CHROMIUM, LOW_CONTRAST, STICKING_OUT, UNFOLD

pytestmark = [
    pytest.mark.browser,
    pytest.mark.xdist_group("report"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))


FIRST_CELLS = """() => [...document.querySelectorAll("#set_volumes table")[0].tBodies[0].rows]
  .map((row) => row.cells[0].textContent)"""


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "none"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 375])
def test_the_page_of_a_set_is_quiet_and_readable(
    browser: Any, whole_set: tk.Set, *, width: int, scheme: str, scripts: bool
) -> None:
    whole_set[next(iter(whole_set))].report()
    report = whole_set.report().path
    said, asked = [], []
    viewport = {"width": width, "height": 900}
    with browser.new_context(
        viewport=viewport, color_scheme=scheme, java_script_enabled=scripts
    ) as context:
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(report.as_uri())
        # THEN the answer and all volumes are there, with a link that leads on
        assert page.locator("h1").bounding_box()["y"] < 400
        assert page.locator("#set_volumes .scroll").first.locator("tbody tr").count() == 6
        assert not said
        assert asked == [report.as_uri()]
        if scripts:
            page.evaluate(UNFOLD)
            assert page.evaluate(STICKING_OUT) == []
            found = page.evaluate(LOW_CONTRAST)
            assert found["found"] == []
            assert found["count"] > 100
        link = page.locator("#set_volumes th a").first
        assert link.is_visible()
        link.click()
        assert page.url.endswith("/report.html")
        assert page.url != report.as_uri()


def test_volumes_are_sorted(browser: Any, whole_set: tk.Set) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(whole_set.report().path.as_uri())
        page.evaluate(UNFOLD)
        page.locator("#set_volumes th", has_text="requests").first.click()
        counts = {name: len(one.requests.arrow()) for name, one in whole_set.items()}
        rising = sorted(counts, key=lambda name: counts[name])
        assert page.evaluate(FIRST_CELLS) == rising
        page.locator("#set_volumes th", has_text="requests").first.click()
        assert page.evaluate(FIRST_CELLS) == rising[::-1]
