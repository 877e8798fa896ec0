"""Sphinx: ``make docs`` builds the site in out/site, without the network.

The source directory is the root of the repository, so that links between pages, the
notebooks and the results of benchmarks are the same in the repository and on the site.
Formulas become MathML, which browsers draw themselves: no script, no fonts to fetch.
Stored output of notebooks is shown as it is; nothing is executed here.
"""

import re
import sys
from pathlib import Path

import latex2mathml.converter
import numpydoc.docscrape_sphinx
import pydata_sphinx_theme.toctree
from bs4 import BeautifulSoup, Tag
from docutils import nodes
from jinja2 import FileSystemLoader
from jinja2.sandbox import SandboxedEnvironment
from sphinx.ext import autosummary
from sphinx.util.math import get_node_equation_number

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import site_pages  # noqa: E402

import probmetric  # noqa: E402

project = "probmetric"
copyright = "the authors of probmetric, Apache-2.0"
version = release = probmetric.__version__
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "notebooks/*.ipynb",
    "benchmarks/*.md",
    "benchmarks/results/*.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "NOTATION.md",
]
# Folders that need not be searched; models and inference are links.
exclude_patterns = [
    ".*",
    "out",
    "dist",
    "build",
    "models",
    "inference",
    "probmetric",
    "tests",
    "tools",
    "**/.ipynb_checkpoints",
]
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "sphinx_copybutton",
]
nitpicky = False

# Pages
myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"
nb_merge_streams = True

# The API
autosummary_generate = False
autosummary.WELL_KNOWN_ABBREVIATIONS += (" Eq.", "(Eq.", " Eqs.", "(Eqs.")
autodoc_default_options = {"members": True, "inherited-members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "none"
python_maximum_signature_line_length = 80
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# The look
html_theme = "pydata_sphinx_theme"
html_title = "probmetric"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_extra"]
toc_object_entries_show_parents = "hide"  # fit(), not LCA.fit()
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"docs/index": [], "docs/gallery": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# numpydoc asks for an environment, and so compiles its template, once a docstring.
numpydoc_templates = SandboxedEnvironment(
    loader=FileSystemLoader(Path(numpydoc.__file__).parent / "templates")
)
numpydoc.docscrape_sphinx.SandboxedEnvironment = lambda loader: numpydoc_templates


class Menu(BeautifulSoup):
    """A menu, whose entries are written once where they bear no mark of the page.

    The theme has one menu for all pages of the API, and moves the marks of the page
    that is shown from entry to entry.
    """

    def __init__(self, *args, **options) -> None:
        self.written = {}
        super().__init__(*args, **options)

    def __str__(self) -> str:
        """Return the menu as HTML."""
        return "".join(map(self.write, self.contents))

    def write(self, part) -> str:
        """Return a part of the menu as HTML."""
        if not isinstance(part, Tag):
            return part.output_ready()
        if part.name == "li" and "current" not in part.get("class", []):
            if id(part) not in self.written:
                self.written[id(part)] = part.decode()
            return self.written[id(part)]
        if part.name not in {"ul", "li", "details"}:
            return part.decode()
        begin, end = Tag(name=part.name, attrs=part.attrs).decode().split("><")
        return f"{begin}>{''.join(map(self.write, part.contents))}<{end}"


pydata_sphinx_theme.toctree.BeautifulSoup = Menu


def as_mathml(text: str, display: str) -> str:
    """Return MathML of a formula in LaTeX, with the spaces that the converter omits.

    A transpose is an upright T: many fonts draw ⊤ large and far above the line.
    """
    text = text.replace(r"\sim", r"\;\sim\;")
    text = re.sub(r"\\(log|exp|min|max)(?![a-z_^]|\s*(\\left)?\()", r"\\\1\\,", text)
    made = latex2mathml.converter.convert(text, display=display)
    return made.replace("<mo>&#x022A4;</mo>", '<mi mathvariant="normal">T</mi>')


def inline_math(self, node) -> None:
    """Write a formula within a line."""
    self.body.append(as_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def block_math(self, node) -> None:
    """Write a formula on its own line, with its number where it has one."""
    self.body.append(self.starttag(node, "div", CLASS="formula"))
    self.body.append(as_mathml(node.astext(), "block"))
    if node["number"]:
        number = get_node_equation_number(self, node)
        self.body.append(f'<span class="eqno">({number})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>")
    raise nodes.SkipNode


def describe_pictures(app, doctree) -> None:
    """Give the figures of a notebook a text: the heading that they stand under."""
    if not app.env.current_document.docname.startswith("notebooks/"):
        return
    for image in doctree.findall(nodes.image):
        section = image
        while section and not isinstance(section, nodes.section):
            section = section.parent
        if section and not image.get("alt"):
            title = next(section.findall(nodes.title)).astext()
            image["alt"] = f"Figure of the section “{title}”"


def foreign(app, what, name, obj, skip, options) -> bool | None:
    """Leave out what scikit-learn, tuples and protocols bring along."""
    module = getattr(obj, "__module__", None) or ""
    text = getattr(obj, "__doc__", None) or ""
    own = module.startswith("probmetric") or isinstance(obj, property)
    return None if own and text.strip() else True


def without_way_back(app, pagename, templatename, context, doctree) -> None:
    """Drop the links from a source file to the API, which miss names of two rooms."""
    if pagename.startswith("_modules/"):
        back = r'<a class="viewcode-back"[^>]*>.*?</a>'
        context["body"] = re.sub(back, "", context["body"])


def setup(app) -> None:
    """Register the generated pages and the renderer of formulas."""
    app.connect("builder-inited", lambda app: site_pages.write(), priority=100)
    app.connect("doctree-read", describe_pictures)
    app.connect("html-page-context", without_way_back)
    app.connect("autodoc-skip-member", foreign)
    app.add_html_math_renderer(
        "mathml",
        inline_renderers=(inline_math, None),
        block_renderers=(block_math, None),
    )


html_math_renderer = "mathml"
