"""The public names: which there are, how they load, and who uses others.

A module is public where the stubs say so: ``probmetric`` and, from there on, what an
``__init__.pyi`` names by ``from . import``. A file without a stub, as
``probmetric.models.lca``, lists its public names in ``__all__``.
"""

import ast
import doctest
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import pytest

import probmetric as pm
from probmetric._lazy import renamed
from tests.learners import LEARNERS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "probmetric"
PARSER = doctest.DocTestParser()


def stub_of(module: str) -> Path:
    return ROOT / module.replace(".", "/") / "__init__.pyi"


def listed(module: str) -> tuple[set[str], set[str]]:
    """Return the modules and the other names that a stub names."""
    rooms: set[str] = set()
    names: set[str] = set()
    for node in ast.parse(stub_of(module).read_text()).body:
        if isinstance(node, ast.ImportFrom):
            (names if node.module else rooms).update(a.name for a in node.names)
    return rooms, names


def public_modules(root: str = "probmetric") -> Iterator[str]:
    yield root
    if stub_of(root).exists():
        for room in sorted(listed(root)[0]):
            yield from public_modules(f"{root}.{room}")


PUBLIC = list(public_modules())
ROOMS = [module for module in PUBLIC if stub_of(module).exists()]


def offered(module: str) -> set[str]:
    """Return the public names of a public module."""
    if stub_of(module).exists():
        return set().union(*listed(module))
    return set(import_module(module).__all__)


def not_public(code: str) -> set[str]:
    """Return what code imports of the package that is not public."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names if a.name not in PUBLIC}
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = node.module
            known = offered(module) if module in PUBLIC else set()
            found |= {f"{module}.{a.name}" for a in node.names if a.name not in known}
    return {name for name in found if name.split(".")[0] == "probmetric"}


def cells(path: Path) -> Iterator[str]:
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "code":
            yield re.sub(r"^[%!].*$", "", "".join(cell["source"]), flags=re.M)


def fences(path: Path) -> Iterator[str]:
    for block in re.findall(r" *```python\n.*?```", path.read_text(), re.S):
        code = dedent(block).removeprefix("```python\n").removesuffix("```")
        if "import" in code:  # Others may be parts of a statement.
            yield code


EXAMPLES = [
    *((path, list(cells(path))) for path in sorted(ROOT.glob("notebooks/*.ipynb"))),
    *(
        (path, list(fences(path)))
        for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    ),
]


@pytest.mark.parametrize(
    ("path", "codes"), EXAMPLES, ids=[str(p.relative_to(ROOT)) for p, _ in EXAMPLES]
)
def test_examples_import_public_names_only(path, codes):
    assert not {name for code in codes for name in not_public(code)}


def test_an_import_of_a_file_inside_a_room_would_be_seen():
    inner = "from probmetric.inference.lca.fit import fit"
    assert not_public(inner) == {"probmetric.inference.lca.fit.fit"}
    assert not_public("import probmetric.files") == {"probmetric.files"}
    assert not_public("from probmetric.data import Scaler") == {
        "probmetric.data.Scaler"
    }
    assert not_public("from probmetric.models.lca import _x")
    assert not not_public(
        "import probmetric as pm\n"
        "from probmetric import LCA, models\n"
        "from probmetric.inference.lca import fit\n"
        "from probmetric.models.lca import LCAParams\n"
    )


def without_example(module: str, names: set[str]) -> set[str]:
    """Return the functions and classes that no example with a result uses.

    The example is in the docstring, or in a docstring of the same module.
    """
    room = import_module(module)
    things = {name: getattr(room, name) for name in names}
    examples = [PARSER.get_examples(thing.__doc__ or "") for thing in things.values()]
    shown = [e for some in examples if any(e.want for e in some) for e in some]
    used = " ".join(e.source for e in shown)
    return {
        f"{module}.{name}"
        for name, thing in things.items()
        # Constants may be callable, but have no name and no docstring of their own.
        if callable(thing) and hasattr(thing, "__name__")
        if not any(e.want for e in PARSER.get_examples(thing.__doc__ or ""))
        and not re.search(rf"\b{name}\(", used)
    }


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_callable_has_an_example(module):
    """Which ``make doctest`` runs."""
    assert not without_example(module, offered(module))


def test_a_callable_without_an_example_would_be_named():
    assert without_example("probmetric.plots.style", {"blank", "COLORS"}) == {
        "probmetric.plots.style.blank"
    }


def test_the_package_has_few_public_names_beside_the_learners():
    assert len(set(pm.__all__) - set(LEARNERS)) <= 45


@pytest.mark.parametrize("module", ROOMS)
def test_a_room_offers_what_its_stub_names(module):
    room = import_module(module)
    assert set(room.__all__) == offered(module)
    assert set(room.__all__) <= set(dir(room))
    for name in room.__all__:
        assert getattr(room, name) is not None
    for name in listed(module)[1]:
        # Loading a file of the same name does not put the file in its place.
        assert not isinstance(getattr(room, name), type(sys)), name


def test_every_stub_is_public_and_reached():
    assert {str(path) for path in PACKAGE.rglob("*.pyi")} == {
        str(stub_of(module)) for module in ROOMS
    }


def test_a_misspelt_name_is_an_error_that_suggests_the_name():
    done = subprocess.run(
        [sys.executable, "-c", "import probmetric as pm; pm.LCAClasifier"],
        capture_output=True,
        text=True,
    )
    assert "AttributeError" in done.stderr
    assert "probmetric" in done.stderr
    assert "Did you mean: 'LCAClassifier'?" in done.stderr


def test_a_name_of_an_earlier_version_works_with_a_warning():
    for old, new in renamed().items():
        package, _, name = old.rpartition(".")
        module, _, attribute = new.rpartition(".")
        with pytest.warns(DeprecationWarning, match=rf"{name} will be .* Use {new}"):
            value = getattr(import_module(package), name)
        assert value is getattr(import_module(module), attribute)
        assert name not in import_module(package).__all__
