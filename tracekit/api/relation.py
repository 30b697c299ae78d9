"""Tables as lazy relations of DuckDB, tied to the trace that they read."""

from __future__ import annotations

import html
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from tracekit.errors import foreign_error
from tracekit.escapes import escape, escape_lines

if TYPE_CHECKING:
    import pandas as pd

    from tracekit.query import DuckDBPyRelation as _Base
else:
    _Base = object

SHOWN_ROWS = 10


class Relation(_Base):
    """A DuckDB relation: filters and joins are lazy, `.df()`, `.arrow()` and `.pl()` run it.

    Every method is that of `duckdb.DuckDBPyRelation`; a relation that comes of one is a Relation
    too. It keeps the trace that it reads, and a temporary one on disk with it. `.arrow()` returns a
    `pyarrow.Table`. What the database refuses is raised as a TracekitError.
    """

    def __init__(self, relation: Any, owner: object) -> None:
        self._relation = relation
        self._owner = owner

    def df(self, *, date_as_object: bool = False) -> pd.DataFrame:
        """Run it and return all rows as a data frame of pandas."""
        found: pd.DataFrame = self.to_df(date_as_object=date_as_object)
        return found

    def arrow(self, batch_size: int = 1_000_000) -> Any:  # noqa: ARG002 - DuckDB's signature
        """Run it and return all rows as a pyarrow.Table."""
        return self.to_arrow_table()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and name != "__arrow_c_stream__":
            raise AttributeError(name)
        value = getattr(self._relation, name)
        return self._passed(value) if callable(value) else value

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(self._relation)})

    def __len__(self) -> int:
        return len(self._relation)

    def __getitem__(self, name: str) -> Any:
        return Relation(self._relation[name], self._owner)

    def __repr__(self) -> str:
        return escape_lines(repr(self._relation))

    def _repr_html_(self) -> str:
        head = self.limit(SHOWN_ROWS + 1).to_arrow_table()
        return html_table(head.column_names, [tuple(row.values()) for row in head.to_pylist()])

    def _passed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method of DuckDB's relation that takes and gives relations of this class."""

        from tracekit.query import DuckDBPyRelation

        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = [_plain(value) for value in args]
            named = {key: _plain(value) for key, value in kwargs.items()}
            try:
                result = method(*given, **named)
            except Exception as error:
                known = foreign_error(error)
                if known is None:
                    raise
                raise known from error
            is_relation = isinstance(result, DuckDBPyRelation)
            return Relation(result, self._owner) if is_relation else result

        return call


def _plain(value: Any) -> Any:
    return value._relation if isinstance(value, Relation) else value


def html_table(names: list[str], rows: list[tuple[Any, ...]]) -> str:
    """Return at most SHOWN_ROWS rows as HTML; what a trace names is escaped."""
    head = "".join(f"<th>{html_text(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{html_text(_cell(value))}</td>" for value in row) + "</tr>"
        for row in rows[:SHOWN_ROWS]
    )
    more = "<p>&hellip;</p>" if len(rows) > SHOWN_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def html_text(text: str) -> str:
    """Return the text for HTML, harmless also where it is shown."""
    return html.escape(escape(text))


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)
