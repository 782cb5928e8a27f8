"""What notebooks show of models and tensors."""

from __future__ import annotations

import os
from html import escape
from typing import Any, Union

class Report:
    """A page, which a notebook shows in a separate frame: ``html`` is its text."""

    def __init__(self, html: str):
        self.html = html

    def save(self, path: Union[str, os.PathLike]) -> None:
        """Writes the page to a file, for a browser."""
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.html)

    def _repr_html_(self) -> str:
        # The frame has no rights of the notebook's page; its scripts draw the map.
        return f'<iframe srcdoc="{escape(self.html)}" sandbox="allow-scripts" style="width:100%;height:800px;border:0"></iframe>'

    def __repr__(self) -> str:
        return f"<tensorfs.Report, {len(self.html):,} characters>"


_ROWS = 20
_CELL = "padding:2px 10px;text-align:left;font-family:monospace"


def _table(head: list[str], rows: list[list[Any]]) -> str:
    def line(tag: str, cells: list[Any]) -> str:
        return "<tr>" + "".join(f'<{tag} style="{_CELL}">{escape(str(x))}</{tag}>' for x in cells) + "</tr>"

    return "<table>" + line("th", head) + "".join(line("td", row) for row in rows) + "</table>"


def model(m: Any) -> str:
    """A model: what it is, and its first tensors."""
    about = f"<b>{escape(m.path)}</b>: {escape(m.format)}, {escape(m.architecture or 'of no known architecture')}"
    view = m._first
    rows = [[t.name, t.dtype, " x ".join(map(str, t.shape)), f"{t.nbytes:,}", t.source_name] for t in (view[name] for name in list(view)[:_ROWS])]
    more = f"<p>and {len(view) - _ROWS:,} more</p>" if len(view) > _ROWS else ""
    return f"<div><p>{about}; views {', '.join(m.views)}</p>{_table(['tensor', 'dtype', 'shape', 'bytes', 'in the file'], rows)}{more}</div>"


def tensor(t: Any) -> str:
    """A tensor: type and shape, and how its numbers are spread."""
    about = f"<b>{escape(t.view)}/{escape(t.name)}</b>: {escape(t.dtype)} [{', '.join(map(str, t.shape))}], {t.nbytes:,} bytes"
    try:
        picture = histogram(t)
    except (ImportError, TypeError, OSError):
        picture = ""
    return f"<div><p>{about}</p>{picture}</div>"


def histogram(t: Any, bars: int = 60) -> str:
    """A tensor's numbers as a picture; of a large tensor, only some rows are drawn."""
    import numpy

    rows = t.shape[0] if t.shape else 1
    if t.nbytes > 64 << 20 and t.plain and rows > 256:
        step = rows // 256
        parts = [bytes(t.read(i, i + 1)) for i in range(0, rows, step)]
        from ._model import numpy_of

        numbers = numpy_of(numpy.frombuffer(b"".join(parts), numpy.uint8), t, (-1,))
    else:
        numbers = t.numpy().reshape(-1)
    numbers = numbers.astype(numpy.float32)
    numbers = numbers[numpy.isfinite(numbers)]
    if not numbers.size:
        return ""
    counts, edges = numpy.histogram(numbers, bars)
    width, height, top = 480, 100, max(int(counts.max()), 1)
    shapes = "".join(
        f'<rect x="{i * width / bars:.1f}" y="{height - height * n / top:.1f}" width="{width / bars - 1:.1f}" height="{height * n / top:.1f}"/>'
        for i, n in enumerate(map(int, counts))
    )
    ends = f'<text x="0" y="{height + 14}">{edges[0]:.4g}</text><text x="{width}" y="{height + 14}" text-anchor="end">{edges[-1]:.4g}</text>'
    style = 'fill="currentColor" font-family="monospace" font-size="11"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height + 18}" {style}>{shapes}{ends}</svg>'
