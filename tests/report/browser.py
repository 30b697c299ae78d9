"""Open a report in Chromium and note everything it says and asks for."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
Scheme = Literal["light", "dark"]
DESKTOP = (1280, 900)
PHONE = (375, 812)


@contextmanager
def opened(
    file: Path, *, size: tuple[int, int] = DESKTOP, scheme: Scheme = "light"
) -> Iterator[tuple[Any, list[str], list[str]]]:
    """Yield the page, what it printed to the console, and the addresses that it asked for."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme
        )
        page = context.new_page()
        said: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(file.as_uri())
        try:
            yield page, said, asked
        finally:
            browser.close()
