"""The examples of docs/python.md, run one after another; `make docs` writes what they print."""

import contextlib
import doctest
import io
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "python.md"
BLOCK = re.compile(r"(?<=^```python\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """A statement of the guide and what it prints, as the guide shows it."""

    source: str
    shown: str


def examples(text: str) -> list[Example]:
    """Return the statements in the order of the guide."""
    parser = doctest.DocTestParser()
    return [
        Example(one.source, one.want)
        for block in BLOCK.findall(text)
        for one in parser.get_examples(block)
    ]


def printed(sources: list[str]) -> list[str]:
    """Run statements in one namespace and return what each prints, a value as a prompt shows it."""
    names: dict[str, object] = {"__name__": "__main__"}
    found = []
    for source in sources:
        stream = io.StringIO()
        with contextlib.redirect_stdout(stream):
            exec(compile(source, "<guide>", "single"), names)  # noqa: S102 - our own guide
        found.append(stream.getvalue())
    return found


def main() -> None:
    """Write the guide anew, with what its statements print now."""
    text = GUIDE.read_text()
    shown = iter(printed([one.source for one in examples(text)]))

    def written(block: re.Match[str]) -> str:
        parts = doctest.DocTestParser().get_examples(block[0])
        return "".join(
            "".join(
                f"{'>>>' if number == 0 else '...'} {line}\n"
                for number, line in enumerate(one.source.splitlines())
            )
            + next(shown)
            for one in parts
        )

    GUIDE.write_text(BLOCK.sub(written, text))


if __name__ == "__main__":
    if sys.argv[1:] == ["--json"]:
        made = printed([one.source for one in examples(GUIDE.read_text())])
        sys.stdout.write(json.dumps(made))
    else:
        main()
