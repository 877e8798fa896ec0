"""Expected texts: all that is shown, compared with a file of ``tests/expected``.

``PROBMETRIC_WRITE_EXPECTED=1 python -m pytest FILE`` writes the files anew. A number in
them is right because it was computed in another way before it was stored; do so again
for each line that ``git diff tests/expected`` shows. Numbers of seven or more digits
may differ by 1e-6 of their value, all else is compared as it is printed.
"""

import base64
import difflib
import os
import re
from pathlib import Path

import numpy as np
from matplotlib.colors import to_hex

from probmetric.provenance import versions

FOLDER = Path(__file__).parent / "expected"
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
SECONDS = re.compile(r'\b\d{1,3}\.\d+(?= s\b)|(?<="seconds": )[\d.e-]+')
PICTURE = re.compile(r'src="data:image/[^;]*;base64,([^"]*)"')


def same(found, wanted):
    """Compare texts: numbers of many digits within a tolerance, all else exactly."""
    pairs = zip(NUMBER.findall(found), NUMBER.findall(wanted), strict=False)
    return NUMBER.split(found) == NUMBER.split(wanted) and all(
        a == b or (max(len(a), len(b)) > 7 and np.isclose(float(a), float(b), 1e-6))
        for a, b in pairs
    )


def assert_expected(text, name, **masks):
    """Compare a text with a stored one; ``masks`` are words for its paths and times."""
    known = {version: f"{name}'s" for name, version in versions().items()}
    known |= {str(value): word for word, value in masks.items()}
    for value in sorted(known, key=len, reverse=True):
        text = re.sub(rf"(?<![\d.]){re.escape(value)}(?!\.?\d)", known[value], text)
    found = SECONDS.sub("0.0", text).rstrip().splitlines()
    path = FOLDER / name
    wanted = path.read_text("utf8").splitlines() if path.exists() else []
    if len(found) == len(wanted) and all(map(same, found, wanted)):
        return
    if os.environ.get("PROBMETRIC_WRITE_EXPECTED") != "1":
        lines = difflib.unified_diff(wanted, found, name, "found", lineterm="", n=0)
        raise AssertionError("\n".join(lines))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*found, ""]), "utf8")


def page_text(html):
    """Return a page's lines without styles; a picture is the text that was saved."""
    html = re.sub(r"<(style|script)>.*?</\1>\n?", "", html, flags=re.DOTALL)
    html = PICTURE.sub(lambda m: "\n" + base64.b64decode(m[1]).decode() + "\n", html)
    return "\n".join(line for line in html.splitlines() if line.strip())


def numbers(values):
    """Write some numbers; many as their count, ends, mean and mean absolute value."""
    v = np.ma.filled(np.ma.asarray(values, float), np.nan).ravel()
    few = v if len(v) <= 40 else [*v[:3], *v[-3:], np.nanmean(v), np.nanmean(abs(v))]
    words = [f"{0 if abs(x) < 1e-9 else x:.8g}" for x in few]
    return " ".join([f"{len(v)}:"] * (len(v) > 40) + words)


def shown(artist):
    """Write the name and the places of a line, patch, collection, image or text."""
    name, get = artist.get_label(), lambda what: getattr(artist, f"get_{what}")()
    if hasattr(artist, "get_xydata"):
        return f"{name} {to_hex(get('color'))} {numbers(get('xydata').T)}"
    if hasattr(artist, "get_text"):
        return f"{get('text')!r} at {numbers(get('position'))}"
    if hasattr(artist, "get_bbox"):
        box = get("bbox")
        return f"box {numbers(box.extents)}" if box.width * box.height else ""
    if hasattr(artist, "get_extent"):
        return f"image {numbers(get('array'))} in {numbers(get('extent'))}"
    paths = getattr(artist, "get_paths", lambda: [get("path")])()
    places = [np.empty((0, 2)), *(path.vertices for path in paths)]
    if type(artist).__name__ == "PathCollection":  # The paths are the markers.
        places = [get("offsets")]
    return f"{name} {type(artist).__name__} {numbers(np.concatenate(places).T)}"


def figure_text(figure):
    """Write what a figure shows: titles, labels, ticks, legends, marks and places."""
    lines = [f"figure {figure.get_suptitle()!r}"]
    for axis in figure.axes:
        titles = [axis.get_title(loc) for loc in ("left", "center", "right")]
        lines.append(f"axes {titles} x {axis.get_xlabel()!r} y {axis.get_ylabel()!r}")
        for side in (axis.xaxis, axis.yaxis):
            ticks = [text.get_text() for text in side.get_ticklabels()]
            lines.append(f" {side.get_scale()} {numbers(side.get_ticklocs())} {ticks}")
        if axis.get_legend():
            lines.append(f" legend {[t.get_text() for t in axis.get_legend().texts]}")
        marks = [*axis.lines, *axis.patches, *axis.collections, *axis.images]
        lines += [f" {line}" for line in map(shown, [*marks, *axis.texts]) if line]
    return "\n".join(lines)
