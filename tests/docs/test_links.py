"""Every place that the documentation points to is there."""

import re
from pathlib import Path

import pytest

from tests.house.tree import files, place

LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
PAGES = files("*.md")


@pytest.mark.parametrize("page", PAGES, ids=map(place, PAGES))
def test_links_lead_somewhere(page: Path) -> None:
    targets = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    assert [target for target in targets if not (page.parent / target).exists()] == []
