"""Imports what a test writes: each text into a trace folder of its own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import parsed as traces
from tests.parsed import Row
from tracekit.errors import InputError, TracekitError
from tracekit.readers.importing import import_trace
from tracekit.readers.units import ImportOptions
from tracekit.store import TraceFolder

Content = str | bytes | Path | Sequence[Path]


class Importer:
    """Imports texts, bytes or files that are there; options are those of ImportOptions."""

    def __init__(self, folder: Path) -> None:
        self.source = folder / "x"
        self.output = folder / "out0"

    def store(self, content: Content) -> Path | Sequence[Path]:
        """Write a text or bytes to the file `x`, which says nothing of its format."""
        if isinstance(content, str | bytes):
            self.source.write_bytes(content.encode() if isinstance(content, str) else content)
            return self.source
        return content

    def __call__(self, content: Content, **options: Any) -> TraceFolder:
        self.output = self.output.with_name(f"out{int(self.output.name[3:]) + 1}")
        return import_trace(self.store(content), self.output, options=ImportOptions(**options))

    def rows(self, content: Content, **options: Any) -> list[Row]:
        return traces.rows(self(content, **options))

    def gives(
        self, content: Content, kind: str, expected: list[Row], **options: Any
    ) -> TraceFolder:
        """Check format and rows of an import, and that no line of it is wrong."""
        made = self(content, **options)
        assert made.content["source"]["format"] == kind
        assert traces.rows(made) == expected
        assert made.content["counts"]["bad_lines"] == 0
        return made

    def rejects(
        self,
        content: Content,
        message: str,
        *,
        error: type[TracekitError] = InputError,
        hint: str = "",
        **options: Any,
    ) -> str:
        """Check that an import stops with this message and a hint, and leaves nothing behind."""
        with pytest.raises(error, match=message) as caught:
            self(content, **options)
        assert caught.value.hint
        assert hint in caught.value.hint
        assert not self.output.exists()
        return str(caught.value)
