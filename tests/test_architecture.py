"""The layout of DESIGN §2 holds: who may import whom, how long, in what words."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "probmetric"
SOURCES = sorted(PACKAGE.rglob("*.py"))
MAX_LINES = 300

# What a layer may import, beside itself: everything to its left.
LAYERS = [
    {"typing", "precision", "linalg", "interrupts", "files"},
    {"data"},
    {"metric"},
    {"pairs", "inputs", "neighbors", "posterior", "models", "datasets"},
    {"storage"},
    {"inference"},
    {"registry"},
    {"validation", "estimators", "evaluation", "model_choice"},
    {"run"},
    {"plots", "report"},
    {"cli"},
    {"__main__"},
]
# Within a layer: one-way as well.
FORBIDDEN_PAIRS = {
    ("models", "neighbors"),
    ("models", "posterior"),
    ("neighbors", "posterior"),
    ("pairs", "neighbors"),
}


def layer_of(part: str) -> int | None:
    """Return the layer of a first-level module; neighbors_search is neighbors."""
    stem = part.lstrip("_").split("_")[0]
    for level, names in enumerate(LAYERS):
        if part in names or stem in names:
            return level
    return None


def part_of(path: Path) -> str:
    """Return the first-level module or folder that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(tree: ast.AST) -> set[str]:
    """Return the first-level probmetric modules that a syntax tree imports."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module]
            if node.module == "probmetric":
                names = [a.name for a in node.names if not a.name.startswith("__")]
                modules = [f"probmetric.{name}" for name in names]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            continue
        for module in modules:
            if module.startswith("probmetric."):
                found.add(module.split(".")[1])
    return found


def offences(part: str, tree: ast.AST) -> set[str]:
    """Return the imports of a file of ``part`` that go the wrong way."""
    level = layer_of(part)
    assert level is not None, f"{part}: in no layer of tests/test_architecture.py"
    return {
        other
        for other in imported_parts(tree)
        if (layer_of(other) is None)
        or (layer_of(other) > level)
        or ((part.split("_")[0], other.split("_")[0]) in FORBIDDEN_PAIRS)
    }


@pytest.mark.parametrize(
    "path", SOURCES, ids=[str(p.relative_to(PACKAGE)) for p in SOURCES]
)
def test_imports_go_one_way(path):
    part = part_of(path)
    if part == "__init__":
        return
    assert not offences(part, ast.parse(path.read_text()))


def test_a_backward_import_would_be_seen():
    tree = ast.parse("from probmetric.inference.solvers.em import run_em")
    assert offences("models", tree) == {"inference"}
    assert offences("linalg", ast.parse("import probmetric.data.containers")) == {
        "data"
    }
    assert not offences("estimators", tree)


def test_no_module_imports_the_command_line():
    importers = [
        path.name
        for path in SOURCES
        if part_of(path) not in ("cli", "__main__")
        and not part_of(path).startswith("cli_")
        and any(
            p.split("_")[0] == "cli"
            for p in imported_parts(ast.parse(path.read_text()))
        )
    ]
    assert not importers


def test_the_root_entries_are_links_into_the_package():
    for name in ("models", "inference"):
        link = ROOT / name
        assert link.is_symlink(), f"{name}: wanted a link"
        assert link.readlink() == Path("probmetric") / name


def test_no_file_imports_through_the_root_links():
    through = re.compile(r"^\s*(from|import) (models|inference)\b", re.MULTILINE)
    files = [*SOURCES, *ROOT.glob("tests/**/*.py"), *ROOT.glob("benchmarks/*.py")]
    assert not [str(path) for path in files if through.search(path.read_text())]


def test_no_file_is_too_long():
    files = [*SOURCES, *ROOT.glob("tests/**/*.py"), *ROOT.glob("benchmarks/*.py")]
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for path in files
    }
    # A test file is a list of claims: its length costs a reader less.
    limits = {n: 400 if n.startswith("tests/") else MAX_LINES for n in lengths}
    assert not {name: n for name, n in lengths.items() if n > limits[name]}


BANNED = {
    "an unfinished thought": r"\b(TODO|FIXME|XXX)\b|NotImplementedError",
    "an explicit inverse or determinant": r"linalg\.(p?inv|det)\(",
    "global configuration": r"jax\.config\b|enable_x64\(\)|simplefilter|filterwarnings",
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
        if pattern.search(line)
    ]
    assert not found


def test_no_file_names_a_private_place():
    pattern = re.compile(r"/(wor[k]|tm[p]|roo[t]|op[t])/|index-ur[l]|find-link[s]")
    kept = {".py", ".md", ".toml", ".lock", ".sh", ".ipynb", ".j2", ""}
    listed = [
        *SOURCES,
        *(p for p in ROOT.glob("*") if p.is_file() and p.name != ".gitignore"),
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
