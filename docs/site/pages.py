"""Gives mkdocs the pages of the checkout, and a page for each other file that they lead to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
MADE = {".venv", "build", "out", "site"}
LINK = re.compile(r"(?<=\]\()(?!\w+:)[^)#\s]+(?=[)#])")
PICTURES = (".svg", ".png")
SECTION = re.compile(r"^## (.+)\n\n\| command .*\n\|.*\n((?:\| \[.*\n)+)", re.MULTILINE)


def _is_ours(path: Path) -> bool:
    return not MADE.intersection(path.relative_to(ROOT).parts)


def _is_shown(path: str) -> bool:
    """Return whether a linked file has a page that shows it."""
    return not path.endswith((".md", *PICTURES))


def on_config(config: Any) -> Any:
    """List the commands as their index groups them."""
    index = "docs/commands/README.md"
    groups = [
        {title: [f"docs/commands/{name}" for name in re.findall(r"\((.+?\.md)\)", rows)]}
        for title, rows in SECTION.findall((ROOT / index).read_text())
    ]
    next(entry for entry in config.nav if "Commands" in entry)["Commands"] = [index, *groups]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages and the files that they lead to."""
    for page in filter(_is_ours, ROOT.rglob("*.md")):
        name = str(page.relative_to(ROOT))
        files.append(File.generated(config, name, abs_src_path=str(page)))
        for link in LINK.findall(page.read_text()):
            target = (page.parent / link).resolve()
            name = str(target.relative_to(ROOT))
            if link.endswith(".md") or not target.is_file() or name in files.src_uris:
                continue
            if not _is_shown(name):
                files.append(File.generated(config, name, abs_src_path=str(target)))
            elif f"{name}.md" not in files.src_uris:
                text = f"# {name}\n\n```{target.suffix[1:]}\n{target.read_text()}\n```\n"
                files.append(File.generated(config, f"{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links lead to the pages that show their files."""
    if re.search(r"\.\w+\.md$", page.file.src_uri):
        page.meta["search"] = {"exclude": True}
    return LINK.sub(lambda link: f"{link[0]}.md" if _is_shown(link[0]) else link[0], markdown)
