"""The pages of the site: each public name has one, each page is reached, links hold.

Nothing is built here (``make docs`` does that, with warnings as errors and its links
checked); what is tested is what the pages are built from.
"""

import importlib.util
import re
import sys
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.test_public import PUBLIC, offered

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path
    for path in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.md")]
    if path != ROOT / "docs/gallery.md"
)
GUIDE = sorted(ROOT.glob("docs/guide/*.md"))
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.S | re.M)


def load_tool(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"tools/{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sys.path.append(str(ROOT / "tools"))
site_pages = load_tool("site_pages")


@pytest.fixture(scope="module")
def api() -> dict[str, str]:
    """Return the pages of the API by name: a second's work, of no use to collection."""
    return site_pages.api_pages()


def entries(page: Path) -> set[str]:
    """Return the pages that a page's toctrees name, by path from the root."""
    found = set()
    for block in TOCTREE.findall(page.read_text()):
        for line in block.splitlines():
            if not line.strip() or line.startswith(":"):
                continue
            target = re.sub(r".*<(.*)>$", r"\1", line.strip())
            path = target.lstrip("/")
            if not target.startswith("/"):
                path = str(page.parent.relative_to(ROOT) / target)
            if "*" in path:
                for suffix in ("md", "ipynb"):
                    files = ROOT.glob(f"{path}.{suffix}")
                    found |= {str(f.relative_to(ROOT).with_suffix("")) for f in files}
            else:
                found.add(path)
    return found


def test_the_tool_and_the_tests_agree_on_what_is_public():
    rooms = {room.module: room for room in site_pages.public_rooms()}
    assert set(rooms) == set(PUBLIC)
    for module, room in rooms.items():
        inner = {name.rsplit(".", 1)[1] for name in room.rooms}
        assert inner | set(room.names) == offered(module)


@pytest.mark.long
def test_every_public_name_has_a_page_and_stands_in_the_table_of_its_rooms(api):
    titles = {text.split("\n")[0] for text in api.values()}
    for room in site_pages.public_rooms():
        table = api[f"docs/api/{room.module}"]
        for name in room.names:
            assert name in titles
            assert re.search(rf"   ~\S*\.{name}\n", table), f"{room.module}.{name}"


@pytest.mark.long
def test_every_page_of_the_api_is_in_a_toctree(api):
    named = {
        line.strip().lstrip("/")
        for text in api.values()
        for line in text.splitlines()
        if line.startswith("   /docs/api/")
    }
    assert set(api) - named == {"docs/api/probmetric"}
    assert named < set(api)


def test_every_page_is_reached_from_the_start():
    reached, new = set(), {"docs/index"}
    while new:
        reached |= new
        pages = [ROOT / f"{page}.md" for page in new]
        new = {e for page in pages if page.exists() for e in entries(page)} - reached
    pages = {str(path.relative_to(ROOT).with_suffix("")) for path in PAGES}
    notebooks = {f"notebooks/{path.stem}" for path in ROOT.glob("notebooks/*.ipynb")}
    assert not (pages | notebooks) - reached
    generated = {"docs/gallery", "docs/api/probmetric"}
    missing = [
        page
        for page in reached - generated
        if not any((ROOT / f"{page}.{suffix}").exists() for suffix in ("md", "ipynb"))
    ]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_pages_resolve(page):
    for target, anchor in LINK.findall(page.read_text()):
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), target
        if anchor and path.suffix == ".md":
            titles = re.findall(r"^#+ +(.*)$", path.read_text(), re.M)
            plain = [re.sub(r"[^\w\- ]", "", title.lower()) for title in titles]
            assert anchor in {title.replace(" ", "-") for title in plain}


def test_names_that_pages_refer_to_are_public():
    for page in PAGES:
        for name in re.findall(r"\{py:obj\}`[^`<]*<([\w.]+)>`", page.read_text()):
            module, _, last = name.rpartition(".")
            assert last in offered(module), f"{page.name}: {name}"


def test_equations_that_pages_refer_to_are_on_the_page():
    for page in ROOT.glob("docs/theory/*.md"):
        text = page.read_text()
        assert set(re.findall(r"\{eq\}`([\w-]+)`", text)) <= set(
            re.findall(r"\$\$ \(([\w-]+)\)$", text, re.M)
        ), page.name


def formulas(text: str) -> list[str]:
    return [
        *re.findall(r"\$\$(.+?)\$\$", text, re.S),
        *re.findall(r"(?<!\$)\$([^$\n]+)\$(?!\$)", re.sub(r"`[^`]*`", "", text)),
    ]


def test_every_formula_becomes_mathml_with_nothing_left_over():
    convert = pytest.importorskip("latex2mathml.converter").convert
    for page in ROOT.glob("docs/theory/*.md"):
        for formula in formulas(page.read_text()):
            made = convert(formula)
            ElementTree.fromstring(made)
            assert "\\" not in made, (page.name, formula)


def test_the_gallery_has_a_card_for_each_public_figure():
    text = site_pages.gallery()
    assert {*site_pages.EXAMPLES} == offered("probmetric.plots")
    for name in site_pages.EXAMPLES:
        assert text.count(f":img-top: /docs/gallery/{name}.png\n") == 1
        assert f"pm.plots.{name}(" in text
    assert all(f"## {title}\n" in text for title in site_pages.HEADINGS.values())


@pytest.mark.long
def test_a_figure_has_a_picture_and_a_learner_names_the_pages_that_use_it(api):
    figure = api["docs/api/probmetric.plots.matrix"]
    assert ".. image:: /docs/gallery/matrix.png" in figure
    assert "pm.plots.matrix(learned, data.frame)" in figure
    assert ":doc:`/docs/guide/sites`" in api["docs/api/probmetric.GDM"]
    assert ":doc:`/docs/guide/sites`" not in api["docs/api/probmetric.RCA"]


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ('<p id="a"></p><a href="#a">here</a>', None),
        ('<a href="page.html#a" id="a">here</a>', None),
        ('<a href="other.html">there</a>', "broken: other.html"),
        ('<a href="#b">nowhere</a>', "no such anchor: #b"),
        ('<script src="https://example.org/x.js"></script>', "from the network"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "from the network"),
        ('<img src="page.html">', "no text: page.html"),
        ("<p>see :ref:`there`</p>", "left over"),
        ("<code>:ref:`there`</code>", None),
    ],
)
def test_the_check_of_a_built_page_sees_what_is_wrong(tmp_path, page, fault):
    path = tmp_path / "page.html"
    path.write_text(page)
    found = load_tool("site_links").faults(path)
    assert (not found) if fault is None else (fault in found[0])


def test_the_citation_names_the_version_and_the_licence():
    import probmetric

    text = (ROOT / "CITATION.cff").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"version: {probmetric.__version__}\n" in text
    assert f"license: {project['license']}\n" in text
    assert "cff-version: 1.2.0\n" in text
    citing = (ROOT / "docs/citing.md").read_text()
    assert f"version = {{{probmetric.__version__}}}" in citing


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("page", GUIDE, ids=lambda p: p.stem)
def test_the_programs_of_the_guide_run(page):
    space: dict[str, Any] = {}
    for code in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M):
        exec(compile(code, str(page), "exec"), space)
