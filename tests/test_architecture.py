"""Imports go one way, cited equations exist, and files contain no banned words."""

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "probmetric"
SOURCES = sorted(PACKAGE.rglob("*.py"))
WRITTEN = [*SOURCES, *ROOT.glob("tests/**/*.py"), *ROOT.glob("benchmarks/*.py")]
TOOLS = sorted(ROOT.glob("tools/*.py"))

LAYERS = [  # A module imports its own line and the lines above it.
    {"densities"},
    {"metric"},
    {"models", "neighbors"},
    {"inference", "posterior"},
    {"estimators", "evaluation", "plots", "storage"},
    {"large", "checks"},
    {"report"},
    {"cli"},
    {"__main__"},
]
"""Modules that are not named are below the first line: every layer may use them."""


@cache
def parsed(path: Path) -> ast.Module:
    """Return the tree of a file of the package."""
    return ast.parse(path.read_text())


def layer(module: str) -> int:
    """Return the line of LAYERS of a module, -1 of a module that all may use."""
    return next((i for i, names in enumerate(LAYERS) if module in names), -1)


@cache
def graph() -> dict[str, set[str]]:
    """Return the modules directly in the package with the modules that each imports."""
    modules: dict[str, set[str]] = {}
    own = {p.relative_to(PACKAGE).parts[0].removesuffix(".py") for p in SOURCES}
    for path in SOURCES:
        module = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if module == "__init__":
            continue
        uses = modules.setdefault(module, set())
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom) and node.module == "probmetric":
                names = [f"probmetric.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                names = [
                    a.name for a in getattr(node, "names", []) if hasattr(a, "name")
                ]
            found = {n.split(".")[1] for n in names if n.startswith("probmetric.")}
            uses |= (found & own) - {module}
    return modules


def backward(modules: dict[str, set[str]]) -> set[tuple[str, str]]:
    """Return the imports of a module by one of a lower layer."""
    return {(m, n) for m, uses in modules.items() for n in uses if layer(n) > layer(m)}


def test_imports_go_one_way():
    assert not backward(graph())
    assert list(TopologicalSorter(graph()).static_order())
    assert {"metric", "data"} <= graph()["models"]
    assert graph()["__main__"] == {"cli"}
    assert "large" not in graph()["checks"]
    assert "checks" not in graph()["large"]
    core = {m for m in graph() if layer(m) < layer("large")}
    assert core & graph()["large"]


def test_a_backward_import_and_a_circle_would_be_seen():
    assert backward({"models": {"inference"}}) == {("models", "inference")}
    assert backward({"data": {"large"}}) == {("data", "large")}
    assert backward({"report": {"cli"}}) == {("report", "cli")}
    assert not backward({"cli": {"report", "data"}})
    with pytest.raises(CycleError):
        list(TopologicalSorter({"a": {"b"}, "b": {"a"}}).static_order())


def unresolved(text: str) -> set[str]:
    """Return numbers cited as "Eq. (n)" that a file neither has nor places elsewhere.

    A file has equation n where a line of its module docstring bears "(n)" and is no
    citation itself. A citation names its place where it is followed by "of", as in
    "Eq. (3) of ``two_stage.groups``", or where it quotes a paper.
    """
    head = ast.get_docstring(ast.parse(text)) or ""
    cited = r"Eqs?\.\s*\((\d+)\)(?:\s*(?:-|–|,|and|to)\s*\((\d+)\))?"
    own = set(re.findall(r"\((\d+)\)", re.sub(cited + r"(?:\s+of)?", "", head)))
    found = set()
    for match in re.finditer(cited + r"(\s+of\s+(?:seed|the\s+paper|``))?", text):
        if match.group(3):
            continue
        found |= {n for n in match.groups()[:2] if n and n not in own}
    return found


def test_every_equation_cited_is_there():
    found = {path: unresolved(path.read_text()) for path in SOURCES}
    assert not {path: numbers for path, numbers in found.items() if numbers}


def misplaced(text: str) -> set[str]:
    """Return citations "Eq. (n) of ``room.file``" of what that file does not have."""
    cited = r"Eqs?\.\s*\((\d+)\)[^.`]{0,20}?\s+of\s+``([a-z_]+(?:\.[a-z_]+)+)``"
    found = set()
    for number, place in re.findall(cited, text):
        tail = place.removeprefix("probmetric.").replace(".", "/")
        files = [
            p
            for p in SOURCES
            if str(p).endswith((f"/{tail}.py", f"/{tail}/__init__.py"))
        ]
        heads = [ast.get_docstring(parsed(p)) or "" for p in files]
        if not any(f"({number})" in head for head in heads):
            found.add(f"({number}) of {place}")
    return found


def test_every_equation_of_another_file_is_there():
    assert not set().union(*(misplaced(path.read_text()) for path in SOURCES))


def test_a_misplaced_equation_would_be_seen():
    assert misplaced("Eq. (99) of ``inference.lda``") == {"(99) of inference.lda"}
    assert misplaced("Eq. (1) of ``no.such``") == {"(1) of no.such"}
    assert not misplaced("Eq. (4) of ``inference.lda``")


def test_a_stale_equation_would_be_seen():
    head = '"""A derivation.\n\n    x = y    (1)\n"""\n'
    assert not unresolved(head + "# Eq. (1)\n")
    assert unresolved(head + "# Eqs. (1)-(2)\n") == {"2"}
    assert not unresolved(head + "# Eq. (2) of ``other.room``\n")


def test_the_root_entries_are_links_into_the_package():
    for name in ("models", "inference"):
        link = ROOT / name
        assert link.is_symlink(), f"{name}: expected a link"
        assert link.readlink() == Path("probmetric") / name


def test_no_file_imports_through_the_root_links():
    through = re.compile(r"^\s*(from|import) (models|inference)\b", re.MULTILINE)
    assert not [str(path) for path in WRITTEN if through.search(path.read_text())]


def first_of_numpyro(source: str) -> str:
    """Return the first import of NumPyro or of a part of it; "" without any."""
    found = re.search(r"^ *(from|import) numpyro\b.*", source, re.MULTILINE)
    return found[0].strip() if found else ""


def loads_numpyro_whole(statement: str) -> bool:
    """Tell whether an import asks for NumPyro itself, or for something of its own."""
    return bool(re.match(r"from numpyro import |import numpyro(?![.\w])", statement))


def test_numpyro_is_imported_before_its_parts():
    # ArviZ leaves a NumPyro in sys.modules that loads once it is used. A part imported
    # before that runs twice, and its second copy lacks what the first was given
    # (numpyro.distributions.distribution): models fail. JAX, left in the same way, has
    # no part of which that is true.
    first = {path: first_of_numpyro(path.read_text()) for path in [*SOURCES, *TOOLS]}
    assert any(first.values())
    assert not [
        p for p, line in first.items() if line and not loads_numpyro_whole(line)
    ]


def test_a_part_of_numpyro_before_it_would_be_seen():
    for part in ("from numpyro.infer import MCMC", "import numpyro.distributions as d"):
        assert first_of_numpyro(f"import jax\n{part}\nimport numpyro\n") == part
        assert not loads_numpyro_whole(part)


CONFIGURATION = "global configuration, but where a user asks for it"
CONFIGURES = PACKAGE / "compilation.py"
BANNED = {
    "an unfinished thought": r"\b(TODO|FIXME|XXX)\b|NotImplementedError",
    "an explicit inverse or determinant": r"linalg\.(p?inv|det)\(",
    CONFIGURATION: r"jax\.config\b|enable_x64\(\)|simplefilter|filterwarnings",
    "silent repair": r"nan_to_num|except Exception|except:",
    "a random stream without a seed": r"np\.random\.(seed|rand|randn|normal)\(",
}


@pytest.mark.parametrize("reason", BANNED)
def test_the_package_holds_no(reason):
    pattern = re.compile(BANNED[reason])
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in SOURCES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line) and (reason, path) != (CONFIGURATION, CONFIGURES)
    ]
    assert not found


# Git's own: in a linked worktree .git is a file that says where its repository is.
GITS_OWN = {".git", ".gitignore"}


def test_no_file_names_a_private_place():
    pattern = re.compile(r"/(wor[k]|tm[p]|roo[t]|op[t])/|index-ur[l]|find-link[s]")
    kept = {".py", ".md", ".toml", ".lock", ".sh", ".ipynb", ".j2", ""}
    listed = [
        *SOURCES,
        *(p for p in ROOT.glob("*") if p.is_file() and p.name not in GITS_OWN),
        *ROOT.glob("tests/**/*.py"),
        *ROOT.glob("notebooks/*.ipynb"),
        *ROOT.glob("benchmarks/*"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("tools/*"),
    ]
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in listed
        if path.suffix in kept and path.is_file() and path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found


def test_every_test_asserts_what_it_compares():
    bare = re.compile(
        r"^\s*(jnp|np|jax\.numpy)\.(allclose|array_equal|isclose)\(", re.M
    )
    found = [
        str(path.relative_to(ROOT))
        for path in ROOT.glob("tests/**/*.py")
        if bare.search(path.read_text())
    ]
    assert not found
