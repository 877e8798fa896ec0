"""Measure the size and language of a checkout: ``python tools/measure.py [FOLDER]``.

Prints the tables of code lines, docstring lines, public names and wording that the
targets in CONTRIBUTING refer to. To compare two commits, run it on a second worktree.
"""

import argparse
import ast
import io
import re
import tokenize
from collections import Counter
from pathlib import Path

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
SILENT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT),
    *(tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER),
}
OUTSIDE_CORE = ("large", "cli", "report", "checks")
LEARNER_FOLDERS = ("models", "inference", "checks", "estimators")
LEARNERS = 13
SHARED = re.compile(  # files of those folders that serve every learner
    r"/(_\w+|sampling/.*|solvers/.*|own/.*|__init__"
    r"|check|claims|compare|criticism|ranks|sides|uniformity)\.py$"
)
COINED = {
    *("found", "own", "given", "one", "known", "kept"),
    *("how", "asked", "seen", "held", "said", "told"),
}
WORDING = {
    "things that say, tell, ask, are told": r"\b(says?|said|tells?|told|asks?|asked)\b",
    '"what is/was/the/it" as a noun': r"\b[Ww]hat (?:is|was|are|were|the|it|they)\b",
    '"as of", "that of", "those of"': r"\b(?:as of|that of|those of)\b",
    'sentences that begin with "Of"': r"\bOf [a-z]",
    '"its own", "of its own"': r"\bits own\b",
    '", so that"': r", so\s+that\b",
    '"alone" for only': r"\balone\b",
    '"all else", "whatever", "in place of", "stead"': (
        r"\ball else\b|\bwhatever\b|\bin place of\b|\bstead\b"
    ),
    "should, use, compute, allow": (
        r"\b(?:should|us(?:e[sd]?|ing)|comput(?:e[sd]?|ing)|allow(?:s|ed|ing)?)\b"
    ),
}


def docstrings(tree: ast.AST) -> list[ast.Constant]:
    """Return the docstring nodes of a module."""
    nodes = []
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False):
            first = node.body[0]
            assert isinstance(first, ast.Expr)
            assert isinstance(first.value, ast.Constant)
            nodes.append(first.value)
    return nodes


def span(node: ast.AST) -> set[int]:
    """Return the numbers of the lines that a node covers."""
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))  # type: ignore[attr-defined]


def count(text: str) -> tuple[int, int]:
    """Return the code lines (no docstrings, comments, imports) and docstring lines."""
    tree = ast.parse(text)
    documented = {line for node in docstrings(tree) for line in span(node)}
    imports = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for line in span(node)
    }
    code = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in SILENT
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(code - documented - imports), len(documented)


def wording(texts: list[str]) -> dict[str, float]:
    """Return how often each pattern occurs per 10,000 words."""
    words = max(1, sum(len(re.findall(r"[A-Za-z][A-Za-z'’-]*", t)) for t in texts))
    return {
        name: 1e4 * sum(len(re.findall(pattern, t, re.M)) for t in texts) / words
        for name, pattern in WORDING.items()
    }


def bound_names(tree: ast.AST) -> list[str]:
    """Return all variable and parameter names that a module binds."""
    return [
        node.id if isinstance(node, ast.Name) else node.arg
        for node in ast.walk(tree)
        if isinstance(node, ast.arg)
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    ]


def messages(tree: ast.AST) -> list[str]:
    """Return the string literals that are not docstrings and contain a sentence."""
    documented = {id(node) for node in docstrings(tree)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in documented
        and node.value.count(" ") >= 3
    ]


def public_names(package: Path) -> tuple[int, int]:
    """Return the number of top-level names and of names listed in all stubs."""
    listed = {
        stub: len(set(re.findall(r"\bas (\w+)", stub.read_text())))
        for stub in package.rglob("__init__.pyi")
    }
    return listed.get(package / "__init__.pyi", 0), sum(listed.values())


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--only", default="", help="part of the package, inference/lca")
    root, only = vars(parser.parse_args()).values()
    code, documentation = Counter[str](), Counter[str]()
    docs: list[str] = []
    texts: list[str] = []
    names: list[str] = []
    untyped = of_learners = 0
    for path in sorted((root / "probmetric").rglob("*.py")):
        if not path.relative_to(root / "probmetric").as_posix().startswith(only):
            continue
        text = path.read_text()
        tree = ast.parse(text)
        folder = path.relative_to(root / "probmetric").parts[0].removesuffix(".py")
        lines = count(text)
        code[folder] += lines[0]
        if folder in LEARNER_FOLDERS and not SHARED.search(str(path)):
            of_learners += lines[0]
        documentation[folder] += lines[1]
        untyped += len(re.findall(r": Any\b", text))
        docs += [node.value for node in docstrings(tree)]  # type: ignore[misc]
        texts += messages(tree)
        names += bound_names(tree)
    for folder in sorted(code):
        print(f"{folder:24} {code[folder]:7} {documentation[folder]:7}")
    core = sum(n for folder, n in code.items() if folder not in OUTSIDE_CORE)
    print(f"\n{'package, code lines':40} {code.total():8}")
    print(f"{'core, code lines':40} {core:8}")
    print(f"{'docstring lines':40} {documentation.total():8}")
    print(f"{'code lines per learner':40} {of_learners / LEARNERS:8.0f}")
    print(f"{': Any':40} {untyped:8}")
    print(f"{'public names, top level / stubs':40} {public_names(root / 'probmetric')}")
    for folder in ("tests", "tools", "benchmarks"):
        lines = sum(count(p.read_text())[0] for p in (root / folder).rglob("*.py"))
        print(f"{folder + ', code lines':40} {lines:8}")
    coined = sum(name in COINED for name in names) / len(names)
    print(f"{'coined variable names':40} {coined:8.1%}")
    readme = [(root / "README.md").read_text()]
    print(f"\n{'per 10,000 words':50} {'docstr.':>7} {'texts':>7} {'README':>7}")
    for name, values in (
        (name, (wording(docs)[name], wording(texts)[name], wording(readme)[name]))
        for name in WORDING
    ):
        print(f"{name:50}", *(f"{value:7.1f}" for value in values))


if __name__ == "__main__":
    main()
