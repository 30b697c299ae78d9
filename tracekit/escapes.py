"""Text of data made harmless where it is shown: a terminal, a shell line, a spreadsheet."""

from __future__ import annotations

import shlex
import unicodedata
from collections.abc import Iterable
from typing import Any, TextIO

FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a spreadsheet takes for the begin of a formula; the wide forms count in some of them."""


def escape(text: str) -> str:
    """Return the text on one line, with an escape for each character that acts, hides or reorders.

    Names of processes are bytes that somebody else chose; they must not command a terminal, break
    an SVG, or change what stands beside them.
    """
    if text.isprintable():
        return text
    return text.translate({ord(c): _escape(ord(c)) for c in set(text) if _is_hidden(c)})


def escape_lines(text: str) -> str:
    """Return the text with the ends of its lines and its tabs as they are."""
    if text.isprintable():
        return text
    return "\n".join("\t".join(map(escape, line.split("\t"))) for line in text.split("\n"))


def joined(lines: Iterable[str]) -> str:
    """Return lines as one text, in which each stays one line."""
    return "\n".join(map(escape, lines))


def cell(text: str) -> str:
    """Return the text for a cell of CSV, with an apostrophe before what would be a formula."""
    plain = escape(text)
    return f"'{plain}" if plain.startswith(FORMULA) else plain


def shell_word(text: str) -> str:
    """Return a word for a line of shell; one that holds more than characters to print as $'...'."""
    if text.isprintable():
        return shlex.quote(text)
    return f"$'{''.join(map(_in_shell, text))}'"


def shell_line(words: Iterable[str]) -> str:
    """Return words as a line of shell that gives just these."""
    return " ".join(map(shell_word, words))


def operand(name: str) -> str:
    """Return the name of a file or folder as a word that is no option."""
    return f"./{name}" if name.startswith("-") else name


class EscapedStream:
    """A standard stream that escapes what is printed there, but the ends of lines and tabs."""

    def __init__(self, bare: TextIO) -> None:
        self.bare = bare

    def write(self, text: str) -> int:
        """Write the text."""
        return self.bare.write(escape_lines(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """Return what the stream below has, but its bytes: click would write past this."""
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self.bare, name)


def bare(stream: Any) -> TextIO:
    """Return the stream below, for text that was made harmless already or must stay as it is."""
    below: TextIO = getattr(stream, "bare", stream)
    return below


def _is_hidden(character: str) -> bool:
    kind = unicodedata.category(character)
    return kind[0] == "C" or kind in ("Zl", "Zp")  # controls, directions; line separators


def _escape(point: int) -> str:
    return f"\\x{point:02x}" if point < 256 else f"\\u{point:04x}"


def _in_shell(character: str) -> str:
    """Return a character between $' and ': by its bytes in octal where it may not stand there."""
    if character.isprintable() and character not in "\\'":
        return character
    is_byte = "\udc80" <= character <= "\udcff"
    encoded = character.encode(errors="surrogateescape" if is_byte else "surrogatepass")
    return "".join(f"\\{byte:03o}" for byte in encoded)
