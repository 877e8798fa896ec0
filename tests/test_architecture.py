"""The layout holds: who imports whom, which names, in what words."""

import ast
import re
from collections import Counter
from graphlib import CycleError
from pathlib import Path

import pytest

from tools.rooms import PACKAGE, ROOT, floors, graph, table

SOURCES = sorted(PACKAGE.rglob("*.py"))
FOLDERS = [p for p in SOURCES if p.name == "__init__.py" and p.parent != PACKAGE]
TOOLS = sorted(ROOT.glob("tools/*.py"))
WRITTEN = [*SOURCES, *ROOT.glob("tests/**/*.py"), *ROOT.glob("benchmarks/*.py")]

# The order in which a reader meets the rooms: each may import those on earlier lines.
ORDER = [
    {
        "typing",
        "precision",
        "interrupts",
        "files",
        "progress",
        "compilation",
    }
    | {"arguments", "linalg_scaled", "names", "provenance", "registry"},
    {"linalg", "data", "datasets", "processes"},
    {"densities"},
    {"metric"},
    {"neighbors", "models"},
    {"posterior", "inference"},
    {"checks", "estimators", "evaluation", "storage", "plots"},
    {"validation"},
    {"report"},
    {"__main__", "cli"},
]


def level_of(room: str) -> int | None:
    """Return the line of ORDER that names a room, or None."""
    return next((i for i, names in enumerate(ORDER) if room in names), None)


def backward(rooms: dict[str, set[str]]) -> set[tuple[str, str]]:
    """Return the imports that do not go to an earlier line, or to one's own line.

    Within a line rooms may import each other one way; circles are another test.
    """
    return {
        (room, other)
        for room, uses in rooms.items()
        for other in uses
        if level_of(room) is None
        or level_of(other) is None
        or level_of(other) > level_of(room)
    }


def test_imports_go_one_way():
    assert not backward(graph())


@pytest.mark.parametrize(
    "inside",
    ["", *(".".join(p.parent.relative_to(PACKAGE).parts) for p in FOLDERS)],
)
def test_no_imports_go_in_a_circle(inside):
    assert floors(graph(inside=inside))


def test_a_backward_import_and_a_circle_would_be_seen():
    assert backward({"models": {"inference"}}) == {("models", "inference")}
    assert backward({"nameless": {"data"}}) == {("nameless", "data")}
    with pytest.raises(CycleError):
        floors({"models": {"inference"}, "inference": {"models"}})


def test_rooms_and_floors_are_few():
    rooms = graph()
    assert len(rooms) <= 30
    assert max(floors(rooms).values()) <= 12


def test_the_table_of_rooms_in_contributing_is_the_import_graph():
    assert table(graph()) in (ROOT / "CONTRIBUTING.md").read_text()


def prefixed(files: list[Path]) -> set[str]:
    """Return files named after their folder, or sharing a prefix with two others."""
    found = set()
    for path in files:
        stem = path.stem.removeprefix("_")
        if stem.startswith(path.parent.name + "_"):
            found.add(str(path))
    prefixes = Counter(
        (path.parent, path.stem.removeprefix("_").split("_")[0])
        for path in files
        if path.stem.strip("_") != "init"
    )
    crowded = {key for key, number in prefixes.items() if number > 2}
    return found | {
        str(path)
        for path in files
        if (path.parent, path.stem.removeprefix("_").split("_")[0]) in crowded
    }


def test_no_prefix_stands_for_a_folder():
    assert not prefixed(SOURCES)


def test_a_prefix_that_stands_for_a_folder_would_be_seen():
    named = [Path("a/cli/cli_fit.py"), Path("a/cli/x_one.py"), Path("a/cli/x.py")]
    assert prefixed(named) == {"a/cli/cli_fit.py"}
    assert len(prefixed([*named, Path("a/cli/x_two.py")])) == 4


MAP = re.compile(r"^((?:``\w+``(?:, )?)+)(?:\s{2,}.*)?$", re.M)


def _wrong_in_map(text, there):
    """Return the files a folder's map leaves out, and what it lists that is no file."""
    listed = {n for row in MAP.findall(text) for n in re.findall(r"\w+", row)}
    said = set(re.findall(r"``(\w+)``", text))
    return sorted(there - said), sorted(listed - there)


@pytest.mark.parametrize("path", FOLDERS, ids=lambda p: p.parent.name)
def test_a_map_names_every_file_and_no_other(path):
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    if MAP.search(text):
        inside = (p for p in path.parent.glob("[!.]*") if not p.name.startswith("__"))
        inside = (p for p in inside if p.suffix == ".py" or list(p.glob("__init__.py")))
        there = {p.stem for p in inside}
        assert _wrong_in_map(text, there) == ([], [])


def test_a_wrong_map_would_be_seen():
    text = "Room.\n\n``old``    gone.\n``fit``, ``em``\n    both here."
    assert _wrong_in_map(text, {"fit", "em", "new"}) == (["new"], ["old"])


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


@pytest.mark.parametrize(
    "path", SOURCES, ids=[str(p.relative_to(PACKAGE)) for p in SOURCES]
)
def test_every_equation_cited_is_there(path):
    assert not unresolved(path.read_text())


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
        heads = [ast.get_docstring(ast.parse(p.read_text())) or "" for p in files]
        if not any(f"({number})" in head for head in heads):
            found.add(f"({number}) of {place}")
    return found


@pytest.mark.parametrize(
    "path", SOURCES, ids=[str(p.relative_to(PACKAGE)) for p in SOURCES]
)
def test_every_equation_of_another_file_is_there(path):
    assert not misplaced(path.read_text())


def test_a_misplaced_equation_would_be_seen():
    assert misplaced("Eq. (99) of ``inference.lda``") == {"(99) of inference.lda"}
    assert misplaced("Eq. (1) of ``no.such``") == {"(1) of no.such"}
    assert not misplaced("Eq. (4) of ``inference.lda``")


def test_a_stale_equation_would_be_seen():
    head = '"""A derivation.\n\n    x = y    (1)\n"""\n'
    assert not unresolved(head + "# Eq. (1)\n")
    assert unresolved(head + "# Eqs. (1)-(2)\n") == {"2"}
    assert not unresolved(head + "# Eq. (2) of ``other.room``\n")


def test_no_module_imports_the_command_line():
    rooms = graph()
    assert [room for room, uses in rooms.items() if "cli" in uses] in ([], ["__main__"])


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
