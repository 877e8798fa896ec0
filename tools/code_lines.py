"""Count lines of code without comments, docstrings and blank lines, by room.

``python tools/code_lines.py`` counts this checkout; with a folder as argument, another
one (``git worktree add ../before 86a3181`` gives the state to compare with).
"""

import argparse
import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SILENT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT),
    *(tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER),
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(tree: ast.AST) -> list[tuple[str, ast.Constant]]:
    """Return each docstring with the name of what it documents."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False):
            first = node.body[0]
            assert isinstance(first, ast.Expr)
            assert isinstance(first.value, ast.Constant)
            found.append((getattr(node, "name", "module"), first.value))
    return found


def count(text: str) -> tuple[int, int]:
    """Return the lines of code, and the docstring lines of public names."""
    strings = docstrings(ast.parse(text))
    silent = {
        line
        for _, node in strings
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    code = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in SILENT
        for line in range(token.start[0], token.end[0] + 1)
    }
    public = sum(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for name, node in strings
        if not name.startswith("_")
    )
    return len(code - silent), public


def main() -> None:
    """Print lines of code and of public docstrings, for each room and in all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=ROOT)
    package = parser.parse_args().root / "probmetric"
    code, documented, files = Counter(), Counter(), Counter()
    for path in sorted(package.rglob("*.py")):
        room = path.relative_to(package).parts[0].removesuffix(".py")
        lines, public = count(path.read_text())
        code[room] += lines
        documented[room] += public
        files[room] += 1
    print(f"{'room':<24}{'files':>6}{'code':>8}{'public docstrings':>20}")
    for room in sorted(code):
        print(f"{room:<24}{files[room]:>6}{code[room]:>8}{documented[room]:>20}")
    totals = (sum(c.values()) for c in (files, code, documented))
    print("{:<24}{:>6}{:>8}{:>20}".format("all", *totals))


if __name__ == "__main__":
    main()
