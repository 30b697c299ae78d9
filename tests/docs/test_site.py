"""`make site`: strict, with search and pictures, and nothing that needs a network."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.house.tree import ROOT
from tests.report.test_browser import ARGUMENTS, CHROMIUM

MKDOCS = ROOT / "build" / "site" / "bin" / "mkdocs"
FROM_A_NETWORK = re.compile(
    r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"?(?:https?:)?//[^>]*>"
)
MEASURE = "[...document.images].map((image) => image.naturalWidth)"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MKDOCS.exists(), reason="build/site is not there: run make site"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    config = str(ROOT / "docs" / "site" / "mkdocs.yml")
    done = subprocess.run(
        [str(MKDOCS), "build", "--strict", "--config-file", config, "--site-dir", str(folder)],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    # No link leads nowhere, and no page is missing in the navigation.
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_there_and_takes_nothing_from_a_network(site: Path) -> None:
    pages = {str(path.relative_to(site)): path.read_text() for path in site.rglob("*.html")}
    committed = {
        f"docs/{path.relative_to(ROOT / 'docs')}" for path in (ROOT / "docs").rglob("*.md")
    }
    assert {name.replace("/README.md", "/index.md")[:-3] + ".html" for name in committed} < {*pages}
    assert {name: FROM_A_NETWORK.findall(text) for name, text in pages.items()} == {
        name: [] for name in pages
    }


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_reader_without_a_network_finds_a_command(site: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        page = browser.new_context(offline=True).new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto((site / "index.html").as_uri())
        # GIVEN the first page, THEN its picture is shown
        assert min(page.evaluate(MEASURE)) > 0
        # WHEN a word is searched for, THEN the command's page is found, and opens
        page.keyboard.press("f")
        page.keyboard.type("write-amplification")
        page.locator(".md-search-result__link", has_text="tracekit simulate").first.click()
        page.wait_for_url("**/docs/commands/simulate.html**")
        assert said == []
        browser.close()
