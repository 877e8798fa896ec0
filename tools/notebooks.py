"""Execute the notebooks, and compare what they print and draw with what is stored.

    python tools/notebooks.py [NOTEBOOK ...] [--store] [--jobs 2]

Compared are the words of every cell, without numbers, order and warnings (other
machines draw other samples), and the titles and axes of its figures. What differs is
printed, and the exit code is 1: the code moved and the stored output did not.
``--store`` writes the new output.

What a figure shows, for who does not see it, stands in the metadata of its cell, where
the site looks too: ``mystnb: {image: {alt: ...}}``. Its titles and axes follow.
"""

import argparse
import difflib
import os
import re
import sys
from base64 import b64decode, b64encode
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from PIL import Image

ROOT = Path(__file__).parents[1]
NUMBER = re.compile(r"[-+−±]?(\d[\d,]*)?\.?\d+(e[-+]?\d+)?|\bnan\b")
RULE = re.compile(r"[-=]{2,}")
"""Lines drawn under a table's head, as long as its columns are wide."""
FOLDER = re.compile(r"/[^\s:]*/(?=[^\s/]+\.py:)")
"""Where on this machine the file lies that a warning names."""


WORDS = """
def give_figures_words():
    from matplotlib.figure import Figure

    from probmetric.plots.style import words

    shell = get_ipython()
    shell.run_line_magic("matplotlib", "inline")
    png = shell.display_formatter.formatters["image/png"]
    drawn = png.for_type(Figure)
    png.for_type(Figure, lambda figure: (drawn(figure), {"alt": words(figure)}))


give_figures_words()
del give_figures_words
"""
"""Runs in the kernel before a notebook: figures that it draws by hand have words too.

Those of ``probmetric.plots`` say them on their own.
"""


def execute(notebook: Any, folder: Path) -> None:
    """Execute a notebook in place; its figures bear their titles and axes."""
    resources = {"metadata": {"path": str(folder)}}

    def begin(**_: Any) -> None:
        client.kc.execute(WORDS, silent=True, store_history=False)

    client = NotebookClient(
        notebook, timeout=1800, resources=resources, on_notebook_start=begin
    )
    client.execute()


def said(output: Any) -> str:
    """Return the words of an output, sorted: without numbers, layout and ranking."""
    if output["output_type"] == "error":
        return f"{output['ename']}: {output['evalue']}"
    if output["output_type"] == "stream":
        text = output["text"]
    else:
        about = output.get("metadata", {}).get("image/png", {})
        text = output["data"].get("text/plain", "")
        if "image/png" in output["data"]:
            text = f"figure: {about.get('alt') or 'without words'}"
    plain = NUMBER.sub("#", RULE.sub("", FOLDER.sub("", text)))
    return " ".join(sorted({*plain.split()} - {"#"}))


def describe(notebook: Any) -> None:
    """Put the words that a cell has for its pictures before the pictures' own."""
    for cell in notebook["cells"]:
        told = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt")
        for output in cell.get("outputs", []) if told else []:
            for kind in output.get("data", {}):
                if kind.startswith("image/"):
                    about = output["metadata"].setdefault(kind, {})
                    about["alt"] = ". ".join(filter(None, (told, about.get("alt"))))


def spoken(notebook: Any) -> list[str]:
    """Return what each code cell prints and draws, a line each."""
    lines: list[str] = []
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            # A stream may come in one piece or in several. Warnings are of the draws.
            said_aloud = [o for o in cell["outputs"] if o.get("name") != "stderr"]
            streams = [o for o in said_aloud if o["output_type"] == "stream"]
            others = [o for o in said_aloud if o["output_type"] != "stream"]
            text = "".join(o["text"] for o in streams)
            joined = [{"output_type": "stream", "text": text}] if text else []
            found = [said(o) for o in [*joined, *others]]
            # A bar that was drawn and cleared leaves an output of nothing.
            lines += [f"cell {number}: {text}" for text in found if text]
    return lines


def run(path: Path, store: bool) -> list[str]:
    """Execute a notebook; return how its output differs from what is stored."""
    notebook = nbformat.read(path, as_version=4)
    before = spoken(notebook)
    try:
        execute(notebook, path.parent)
    except CellExecutionError as error:
        return ["failed", *str(error).splitlines()]
    describe(notebook)
    if store:
        for cell in notebook["cells"]:
            cell["metadata"].pop("execution", None)  # times of day
            if cell["cell_type"] == "code":
                cell["outputs"] = [o for o in cell["outputs"] if said(o)]
            for output in cell.get("outputs", []):
                if "text" in output:
                    output["text"] = FOLDER.sub("", output["text"])
                if png := output.get("data", {}).get("image/png"):
                    picture = Image.open(BytesIO(b64decode(png))).convert("RGB")
                    picture.quantize(256, method=1).save(file := BytesIO(), "PNG")
                    output["data"]["image/png"] = b64encode(file.getvalue()).decode()
        nbformat.write(notebook, path)
    return list(
        difflib.unified_diff(before, spoken(notebook), "stored", "new", "", "", 0)
    )


def main() -> int:
    """Execute all notebooks, some at a time."""
    # As in a user's notebook: figures are drawn below the cell that makes them.
    os.environ.pop("MPLBACKEND", None)
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("notebooks", nargs="*", type=Path)
    parser.add_argument("--store", action="store_true", help="write the new output")
    parser.add_argument("--jobs", type=int, default=2, help="notebooks at a time")
    options = parser.parse_args()
    paths = options.notebooks or sorted(ROOT.glob("notebooks/*.ipynb"))
    with ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(lambda path: run(path, options.store), paths))
    for path, differences in zip(paths, found, strict=True):
        print(path.name, "as stored" if not differences else "differs:", flush=True)
        print(*(f"  {line.rstrip()}" for line in differences), sep="\n")
    failed = any(lines[:1] == ["failed"] for lines in found)
    return int(failed or (any(found) and not options.store))


if __name__ == "__main__":
    sys.exit(main())
