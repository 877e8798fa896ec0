"""Write the pages of the site that follow from other files: the API and the gallery.

    python tools/site_pages.py        write docs/api/ and docs/gallery.md

``docs/conf.py`` calls ``write`` at the start of every build. What is public is read
from the stubs (``__init__.pyi``), without importing the package: each public name has
one page, under the first room that offers it. A page that has not changed is left
alone, so that Sphinx does not read it again.
"""

import ast
import io
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gallery_examples import EXAMPLES

ROOT = Path(__file__).parents[1]
API = "docs/api"
GALLERY = "docs/gallery"
HEADINGS = {
    "matrix": "The learned matrix",
    "embedding": "Points and neighbors",
    "calibration": "Probabilities and models",
    "det": "One source or two",
}
"""Headings of the gallery, by the first figure below each."""
GROUPS = {
    "estimators": "Learners",
    "neighbors": "Neighbors",
    "metric": "Metrics",
    "posterior": "Uncertainty",
    "data": "Data",
    "inference": "Samplers and fits",
    "evaluation": "Scores and choice",
    "checks": "Checks",
    "storage": "Files",
}
"""Headings of ``probmetric``'s own names, by the folder that a name comes from."""


class Room(NamedTuple):
    """A public module: its rooms, and its other names with the file of each."""

    module: str
    rooms: list[str]
    names: dict[str, str]


def read_room(module: str) -> Room:
    """Return what a public module offers, from its stub or its file."""
    place = ROOT / module.replace(".", "/")
    stub = place / "__init__.pyi"
    path = stub if stub.exists() else place.with_suffix(".py")
    rooms: list[str] = []
    names: dict[str, str] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and path == stub:
            if node.module is None:
                rooms += [f"{module}.{a.name}" for a in node.names]
                continue
            # One dot is the stub's own room, another one that of its parent.
            above = module.rsplit(".", node.level - 1)[0]
            source = f"{above}.{node.module}" if node.level else node.module
            names |= {a.name: source for a in node.names}
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names = dict.fromkeys(ast.literal_eval(node.value), module)
    return Room(module, rooms, names)


def public_rooms(module: str = "probmetric") -> Iterator[Room]:
    """Yield the package and every public module below it."""
    room = read_room(module)
    yield room
    for inner in room.rooms:
        yield from public_rooms(inner)


def first_lines(module: str) -> str:
    """Return the summary of a module's docstring, as reST."""
    place = ROOT / module.replace(".", "/")
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0]


def kind_of(source: str, name: str) -> str:
    """Return autodoc's directive for a name that a file defines, imports or renames."""
    tree = ast.parse((ROOT / (source.replace(".", "/") + ".py")).read_text())
    for node in tree.body:
        if getattr(node, "name", None) == name:
            return "class" if isinstance(node, ast.ClassDef) else "function"
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return kind_of(node.module, alias.name)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            if [getattr(target, "id", None) for target in node.targets] == [name]:
                return kind_of(source, node.value.id)
    return "data"


def heading(text: str) -> str:
    """Return a title of a reST page."""
    return f"{text}\n{'=' * len(text)}\n\n"


def name_page(room: Room, name: str) -> str:
    """Return the page of one public name."""
    kind = kind_of(room.names[name], name)
    page = f"{heading(name)}.. auto{kind}:: {room.module}.{name}\n"
    page += "   :no-value:\n" if kind == "data" else ""
    if room.module == "probmetric.plots":
        code = EXAMPLES[name].replace("\n", "\n   ")
        page += (
            f"\n.. rubric:: Figure\n\n.. image:: /{GALLERY}/{name}.png\n"
            f"   :alt: Figure drawn by pm.plots.{name}\n\n.. code-block:: python\n\n"
            f"   {code}"
        )
    called = f"{room.module}.{name}".replace("probmetric.", "pm.", 1)
    pattern = re.compile(rf"\b{re.escape(called)}\b(?!\.)")
    users = [f":doc:`/{path}`" for path, text in programs() if pattern.search(text)]
    if users:
        page += f"\n.. rubric:: Pages that use it\n\n{', '.join(users)}\n"
    return page


@cache
def programs() -> list[tuple[str, str]]:
    """Return the notebooks and the pages of the guide, with the code in each."""
    found = []
    for path in sorted(
        [*ROOT.glob("docs/guide/*.md"), *ROOT.glob("notebooks/*.ipynb")]
    ):
        text = path.read_text()
        if path.suffix == ".ipynb":
            cells = json.loads(text)["cells"]
            text = "".join("".join(c["source"]) for c in cells)
        found.append((str(path.relative_to(ROOT).with_suffix("")), text))
    return found


def groups_of(room: Room) -> dict[str, list[str]]:
    """Return the names of a room by heading, in order; of inner rooms all as one."""
    if room.module != "probmetric":
        return {"Names": sorted(room.names, key=str.lower)}
    order = [*dict.fromkeys(GROUPS.values()), "Other"]
    found: dict[str, list[str]] = {title: [] for title in order}
    for name, source in sorted(room.names.items(), key=lambda item: item[0].lower()):
        found[GROUPS.get(source.split(".")[1], "Other")].append(name)
    return found


def room_page(room: Room, pages: dict[tuple[str, str], str], here: list[str]) -> str:
    """Return the page of a room: what it is for, and tables of its names."""
    title = "API reference" if room.module == "probmetric" else room.module
    text = heading(title) + first_lines(room.module) + "\n\n"
    text += f".. py:module:: {room.module}\n\n.. py:currentmodule:: None\n\n"
    for group, names in groups_of(room).items():
        found = [pages[room.names[name], name] for name in names]
        if found:
            table = (f"   ~{page.removeprefix(API + '/')}\n" for page in found)
            text += f".. rubric:: {group}\n\n.. autosummary::\n   :nosignatures:\n\n"
            text += "".join(table) + "\n"
        if own := [page for page in found if page in here]:
            text += f".. toctree::\n   :hidden:\n   :caption: {group}\n\n"
            text += "".join(f"   /{page}\n" for page in own) + "\n"
    if room.rooms:
        text += ".. toctree::\n   :maxdepth: 1\n   :caption: Rooms\n\n"
        text += "".join(f"   /{API}/{module}\n" for module in room.rooms) + "\n"
    return text


def api_pages() -> dict[str, str]:
    """Return the pages of the API, by path without suffix from the root."""
    rooms = list(public_rooms())
    pages: dict[tuple[str, str], str] = {}
    text: dict[str, str] = {}
    for room in rooms:
        here = []
        for name, source in room.names.items():
            page = f"{API}/{room.module}.{name}"
            if pages.setdefault((source, name), page) == page:
                here.append(page)
                text[page] = name_page(room, name)
        text[f"{API}/{room.module}"] = room_page(room, pages, here)
    return text


def gallery() -> str:
    """Return the page of the gallery: a card for each figure of ``pm.plots``."""
    text = (
        "# Gallery\n\nEach card has a figure of `pm.plots` and the code that draws it. "
        "Every example starts with `import numpy as np` and `import probmetric as pm`."
        "\n"
    )
    sources = read_room("probmetric.plots").names
    for name, code in EXAMPLES.items():
        if name in HEADINGS:
            end = ":::::\n\n" * ("grid" in text)
            text += f"{end}## {HEADINGS[name]}\n\n:::::{{grid}} 1 1 2 2\n:gutter: 3\n\n"
        text += (
            f"::::{{grid-item-card}} {{py:obj}}`{name} <probmetric.plots.{name}>`\n"
            f":img-top: /{GALLERY}/{name}.png\n"
            f":img-alt: Figure drawn by pm.plots.{name}\n"
            ":class-card: figure\n\n"
            f"{summary(sources[name], name)}\n\n```python\n{code}```\n::::\n\n"
        )
    return text + ":::::\n"


def summary(source: str, name: str) -> str:
    """Return the first line of a function's docstring."""
    for node in ast.parse((ROOT / (source.replace(".", "/") + ".py")).read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return (ast.get_docstring(node) or "").split("\n")[0]
    raise LookupError(f"{source} must define {name}.")


def draw(names: list[str]) -> None:
    """Draw the figures of the gallery that are missing or older than the code."""
    code = [ROOT / "tools/gallery_examples.py", *ROOT.glob("probmetric/plots/*.py")]
    changed = max(path.stat().st_mtime for path in code)
    paths = {name: ROOT / f"{GALLERY}/{name}.png" for name in names}
    old = [n for n, p in paths.items() if not p.exists() or p.stat().st_mtime < changed]
    if not old:
        return
    import gallery
    import matplotlib.pyplot as plt
    from PIL import Image

    for name in old:
        picture = io.BytesIO()
        gallery.run(EXAMPLES[name]).savefig(picture, bbox_inches="tight")
        plt.close("all")
        paths[name].parent.mkdir(parents=True, exist_ok=True)
        image = Image.open(picture).convert("RGB").quantize(64)
        image.save(paths[name], optimize=True)


def put(path: Path, content: bytes) -> None:
    """Write a file that is new or has changed."""
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def write() -> None:
    """Write all generated pages, and remove those of names that are gone."""
    pages = {f"{page}.rst": text for page, text in api_pages().items()}
    for path, text in pages.items():
        put(ROOT / path, text.encode())
    put(ROOT / f"{GALLERY}.md", gallery().encode())
    draw([*EXAMPLES])
    pictures = {f"{GALLERY}/{name}.png" for name in EXAMPLES}
    for old in [*(ROOT / API).glob("*"), *(ROOT / GALLERY).glob("*")]:
        if str(old.relative_to(ROOT)) not in {*pages, *pictures}:
            old.unlink()


if __name__ == "__main__":
    write()
