"""Find every small change of a numeric expression, and draw some of them at random.

A mutant is known by what it changes and not by where its file lies, so that one list
serves two layouts of the same code: the enclosing top-level function or Class.method,
the statement, the smallest enclosing expression before and after (as ``ast.unparse``
writes them), the operator of mutation, and the number of the occurrence among equals.

Which expressions are left out, and by which rule, is said by ``RULES``.
"""

import ast
import copy
import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

SEED = 20261122
"""Written down before the first run; it names the draw and nothing else."""
ROOMS = ("models", "inference", "densities", "metric")
NOT_ROOMS = re.compile(r"check|problem|agreement|calibration")
RULES = {
    "annotation": "a type annotation",
    "decorator": "a decorator's arguments",
    "text": "strings, lists and what is joined to them",
    "message": "what is raised, warned, asserted or formatted",
    "refusal": "the test of an `if` that only raises, and functions named check_...",
    "shape": "an index, a shape, a range, a key of random numbers, or their comparison",
    "setting": "a tolerance, number of steps, draws or threads, size of tile or block: "
    "a name of SETTINGS, what computes with one of LIMITS, or a number below SMALL",
}
SMALL = 1e-4
SETTINGS = frozenset(
    "tol rtol atol eps tiny steps iter maxiter maxsize chunk block blocks tile batch "
    "size limit sweeps starts init draws chains seed warm warmup thin memory halvings "
    "stall armijo restart longest bisections every rounding sufficient candidates "
    "completions particles folds refresh em max min level stacklevel strict copy warn "
    "ndims dtype frozen compare parents ok keys vectorized progress".split()
)
LIMITS = frozenset(
    "tol rtol atol eps tiny steps iter maxiter chunk tile batch draws chains warmup "
    "thin rounding multiplier".split()
)
"""The words among them that leave out every sum, product and comparison with them."""
SHAPES = frozenset(
    "reshape zeros ones empty eye identity arange range broadcast_to broadcast_shapes "
    "split key fold_in tile expand expand_dims squeeze moveaxis to_event linspace "
    "lru_cache len islice triu_indices tril_indices ShapeDtypeStruct".split()
)
WARNS = frozenset("warn warning info debug error warn_of _warn".split())
REDUCES = frozenset(
    "sum mean max min prod all any cumsum logsumexp softmax log_softmax argmax argmin "
    "argsort sort concatenate stack average std var median flip cumprod diff".split()
)
SWAPPED = frozenset(
    "solve solve_triangular outer cross kron dot vdot tensordot subtract divide beta "
    "betaln".split()
)
MODULES = frozenset("np jnp jax nn linalg lax random scipy special numpy".split())
WEIGHT = re.compile(r"(^|[._])(w|weights?|mass|learning_rate)$")
STATEMENT_HEADS: dict[type[ast.stmt], str] = {
    ast.If: "test",
    ast.While: "test",
    ast.For: "iter",
}


class Mutant(NamedTuple):
    """One change of one expression, by what it says (see the module's docstring)."""

    function: str
    statement: str
    before: str
    after: str
    operator: str
    occurrence: int = 0

    @property
    def id(self) -> str:
        """A short name that depends on nothing else."""
        return "m" + hashlib.sha256(repr(tuple(self)).encode()).hexdigest()[:6]


class Site(NamedTuple):
    """Where a mutant lies in one tree: the file, the node and what replaces it."""

    file: Path
    node: ast.expr
    new: ast.expr
    rule: str | None
    function_text: str


Found = tuple[Mutant, Site]


def _words(name: str) -> set[str]:
    return set(name.lower().strip("_").split("_"))


def _name(node: ast.AST) -> str:
    """Return the last name of a name, an attribute or a call of one, or ''."""
    if isinstance(node, ast.Call):
        return _name(node.func)
    return getattr(node, "attr", getattr(node, "id", ""))


def _number(node: ast.AST) -> int | float | None:
    """Return the value of a numeric constant, or None."""
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value


def _is_negative(node: ast.AST) -> TypeGuard[ast.UnaryOp]:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)


class Tree:
    """A syntax tree whose nodes know their parents."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.parent: dict[ast.AST, ast.AST] = {}
        self.field: dict[ast.AST, str] = {}
        self.text: dict[ast.AST, str] = {}
        for node in ast.walk(tree):
            for field, value in ast.iter_fields(node):
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        self.parent[child], self.field[child] = node, field

    def above(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Return (child, parent) from a node up to the module."""
        while node in self.parent:
            yield node, self.parent[node]
            node = self.parent[node]

    def function(self, node: ast.AST) -> tuple[str, str]:
        """Return the name of the outermost function, or Class.method, and its text.

        Outside functions that is the class or "module", with the text of those.
        """
        names, whole = [], self.tree
        for part in [part for _, part in self.above(node)][::-1]:
            if isinstance(part, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                names.append(part.name)
                whole = part
                if not isinstance(part, ast.ClassDef):
                    break
        if whole not in self.text:
            self.text[whole] = ast.unparse(whole)
        return ".".join(names) or "module", self.text[whole]

    def statement(self, node: ast.AST) -> str:
        """Return the enclosing statement without its body and without annotations."""
        for child, part in self.above(node):
            if isinstance(part, ast.arguments):
                return f"def: {self.default_of(child, part)}={ast.unparse(child)}"
            if isinstance(part, ast.AnnAssign):
                value = part.value and ast.unparse(part.value)
                return f"{ast.unparse(part.target)} = {value}"
            if isinstance(part, ast.stmt):
                head = STATEMENT_HEADS.get(type(part))
                if head is None:
                    simple = not isinstance(part, ast.With | ast.Try | ast.Match)
                    return ast.unparse(part) if simple else type(part).__name__
                return f"{type(part).__name__} {ast.unparse(getattr(part, head))}"
        raise ValueError(f"node: expected one inside a statement, got {ast.dump(node)}")

    @staticmethod
    def default_of(default: ast.AST, args: ast.arguments) -> str:
        """Return the name of the argument that a default belongs to."""
        ordered = [*args.posonlyargs, *args.args]
        pairs = [*zip(ordered[::-1], args.defaults[::-1], strict=False)]
        pairs += [*zip(args.kwonlyargs, args.kw_defaults, strict=True)]
        return next((arg.arg for arg, value in pairs if value is default), "")

    def host(self, node: ast.expr) -> ast.expr:
        """Return the smallest expression around a constant that says what it is for."""
        for child, part in self.above(node):
            inside = ast.UnaryOp | ast.Tuple | ast.List | ast.keyword | ast.Starred
            if isinstance(part, inside):
                continue
            if isinstance(part, ast.expr):
                return part
            return child if isinstance(child, ast.expr) else node
        raise ValueError("node: expected one inside a statement")

    def product(self, node: ast.AST) -> ast.AST:
        """Return the whole product or quotient that an expression is a factor of."""
        part = self.parent.get(node)
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mult | ast.Div):
            return self.product(part)
        return node

    def rule(self, node: ast.expr, host: ast.expr) -> str | None:
        """Return the first rule that leaves a node out, or None."""
        for child, part in self.above(node):
            found = self._rule_of(child, part)
            if found:
                return found
        if 0 < abs(_number(node) or 0) < SMALL:
            return "setting"
        if not isinstance(host, ast.BinOp | ast.Compare | ast.UnaryOp | ast.IfExp):
            return None
        parts = list(operands(host))
        names = {_name(part) for part in parts}
        factors = {_name(part) for part in operands(self.product(host))}
        if any(_words(name) & LIMITS for name in names | factors):
            return "setting"
        if any(map(_is_text, parts)):
            return "text"
        counts = names & {"ndim", "shape", "size", "len", "dtype"}
        return "shape" if counts and isinstance(host, ast.Compare) else None

    def _rule_of(self, child: ast.AST, part: ast.AST) -> str | None:
        field, called = self.field[child], _name(part)
        call = isinstance(part, ast.Call) and field != "func"
        first = isinstance(part, ast.Call) and part.args[:1] == [child]
        only_raises = isinstance(part, ast.If) and all(
            isinstance(line, ast.Raise) for line in part.body
        )
        named, allowed = "", SETTINGS
        if isinstance(part, ast.keyword):
            named = part.arg or ""
        elif isinstance(part, ast.arguments):
            named = self.default_of(child, part)
        elif isinstance(part, ast.Assign):
            named = _name(part.targets[0])
            allowed = SETTINGS if named.isupper() else LIMITS
        elif isinstance(part, ast.AnnAssign):
            named = _name(part.target)
        checks = isinstance(part, ast.FunctionDef) and part.name.startswith(
            ("check_", "_check")
        )
        rules = {
            "annotation": field in ("annotation", "returns"),
            "decorator": field == "decorator_list",
            "text": isinstance(part, ast.JoinedStr | ast.FormattedValue),
            "message": isinstance(part, ast.Raise | ast.Assert)
            or (call and called in WARNS),
            "refusal": (only_raises and field == "test") or checks,
            "shape": (isinstance(part, ast.Subscript) and field == "slice")
            or (call and called in SHAPES)
            or (first and called == "full"),
            "setting": bool(_words(named) & allowed),
        }
        return next((name for name, holds in rules.items() if holds), None)


def operands(node: ast.AST) -> Iterator[ast.AST]:
    """Return what an expression computes with, not what those are made of."""
    match node:
        case ast.BinOp():
            below = [node.left, node.right]
        case ast.Compare():
            below = [node.left, *node.comparators]
        case ast.IfExp():
            below = [node.body, node.orelse]
        case ast.UnaryOp():
            below = [node.operand]
        case ast.Subscript():
            below = [node.value]
        case _:
            yield node
            return
    for part in below:
        yield from operands(part)


def _is_text(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    return isinstance(node, ast.JoinedStr | ast.List | ast.ListComp | ast.Set)


def _is_axis(tree: Tree, node: ast.expr) -> bool:
    """Whether a number (or its negative) says along which axis."""
    part = tree.parent[node]
    if isinstance(part, ast.keyword):
        return (part.arg or "").startswith("axis")
    if not isinstance(part, ast.Call) or _name(part) not in REDUCES:
        return False
    owner = getattr(part.func, "value", None)
    method = owner is not None and _name(owner) not in MODULES
    return part.args.index(node) == (0 if method else 1) if node in part.args else False


Change = tuple[str, ast.expr, ast.expr]
"""The operator, the node to be replaced and what takes its place."""


def _constant(tree: Tree, node: ast.expr, number: int | float) -> Iterator[Change]:
    part = tree.parent[node]
    signed = part if _is_negative(part) else node
    value = number if signed is node else -number
    if _is_axis(tree, signed):
        other = {0: 1, -2: -1}.get(int(value), 0)
        yield "axis", signed, ast.Constant(other)
        return
    if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Pow):
        if part.right is node:
            yield "exponent", node, ast.Constant(number + 1)
            yield "drop exponent", part, part.left
            return
    if signed is not node:
        yield "sign", signed, node
    yield "constant + 1", node, ast.Constant(number + 1)
    if number not in (0, 1):
        yield "constant * 2", node, ast.Constant(number * 2)


def _binary(node: ast.BinOp) -> Iterator[Change]:
    def other(op: ast.operator) -> ast.BinOp:
        return ast.BinOp(node.left, op, node.right)

    match node.op:
        case ast.Add():
            yield "+ to -", node, other(ast.Sub())
        case ast.Sub():
            yield "- to +", node, other(ast.Add())
        case ast.Mult():
            yield "* to /", node, other(ast.Div())
            for dropped, kept in (node.left, node.right), (node.right, node.left):
                weight = WEIGHT.search(ast.unparse(dropped))
                yield ("drop weight" if weight else "drop factor"), node, kept
        case ast.Div():
            yield "/ to *", node, other(ast.Mult())
            yield "drop divisor", node, node.left
        case ast.Pow() if _number(node.right) is None:
            more = ast.BinOp(node.right, ast.Add(), ast.Constant(1))
            yield "exponent", node.right, more
        case ast.MatMult():
            yield "swap arguments", node, ast.BinOp(node.right, node.op, node.left)
        case _:
            return


def _call(node: ast.Call) -> Iterator[Change]:
    def called(*args: ast.expr, func: ast.expr = node.func) -> ast.Call:
        return ast.Call(func, list(args), node.keywords)

    name, owner = _name(node), getattr(node.func, "value", None)
    owner = owner if isinstance(owner, ast.expr) else None
    if name in ("sum", "mean") and owner is not None:
        other = "mean" if name == "sum" else "sum"
        func = ast.Attribute(owner, other, ast.Load())
        yield f"{name} to {other}", node, called(*node.args, func=func)
    if owner is not None and name in ("swapaxes", "transpose", "matrix_transpose"):
        yield "drop transpose", node, node.args[0] if _name(owner) in MODULES else owner
    first = {"where": 1, "einsum": 1}.get(name, 0)
    if name in SWAPPED or (name in ("where", "einsum") and len(node.args) == 3):
        args = list(node.args)
        if len(args) >= first + 2:
            args[first : first + 2] = args[first + 1], args[first]
            yield "swap arguments", node, called(*args)


def _changes(tree: Tree, node: ast.AST) -> Iterator[Change]:
    """Return every change of this node itself."""
    number = _number(node)
    if number is not None and isinstance(node, ast.expr):
        yield from _constant(tree, node, number)
    elif isinstance(node, ast.BinOp):
        yield from _binary(node)
    elif isinstance(node, ast.Call):
        yield from _call(node)
    elif isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
        yield "drop transpose", node, node.value
    elif isinstance(node, ast.UnaryOp) and _is_negative(node):
        if _number(node.operand) is None:
            yield "sign", node, node.operand
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        strict: dict[type[ast.cmpop], type[ast.cmpop]] = {
            ast.Lt: ast.LtE,
            ast.LtE: ast.Lt,
            ast.Gt: ast.GtE,
            ast.GtE: ast.Gt,
        }
        other = strict.get(type(node.ops[0]))
        if other:
            yield (
                "comparison",
                node,
                ast.Compare(node.left, [other()], node.comparators),
            )
    elif isinstance(node, ast.keyword) and isinstance(node.value, ast.Constant):
        if isinstance(node.value.value, bool):
            yield "not", node.value, ast.Constant(not node.value.value)


def _replaced(host: ast.expr, node: ast.expr, new: ast.expr) -> ast.expr:
    """Return a copy of ``host`` with ``new`` in the place of ``node``."""
    return copy.deepcopy(host, {id(node): copy.deepcopy(new)})


def in_text(text: str, file: Path = Path("text.py")) -> list[Found]:
    """Return every mutant of a module's text, and those left out with their rule.

    The occurrence is not counted yet: that needs all files.
    """
    tree = Tree(ast.parse(text))
    found = []
    for part in ast.walk(tree.tree):
        for operator, node, new in _changes(tree, part):
            constant = isinstance(getattr(node, "operand", node), ast.Constant)
            leaf = constant or operator == "exponent"
            host = tree.host(node) if leaf else node
            after = _replaced(host, node, new)
            function, function_text = tree.function(host)
            said = (tree.statement(host), ast.unparse(host), ast.unparse(after))
            site = Site(file, host, after, tree.rule(node, host), function_text)
            found.append((Mutant(function, *said, operator), site))
    return found


def counted(found: Iterable[Found]) -> dict[Mutant, Site]:
    """Return mutants with their occurrences counted, whatever the order of files.

    Equals are numbered by the text of their functions, then by their place in it.
    """
    equal = defaultdict(list)
    for mutant, site in found:
        if site.rule is None and mutant.before != mutant.after:
            equal[mutant].append(site)
    return {
        mutant._replace(occurrence=number): site
        for mutant, sites in equal.items()
        for number, site in enumerate(
            sorted(
                sites,
                key=lambda s: (s.function_text, s.node.lineno, s.node.col_offset),
            )
        )
    }


def sources(root: Path) -> list[Path]:
    """Return the files of a checkout whose numeric expressions are mutated."""
    package = root / "probmetric"
    return sorted(
        path
        for room in ROOMS
        for path in (package / room).rglob("*.py")
        if not NOT_ROOMS.search(str(path.relative_to(package)))
    )


def everything(files: Iterable[Path]) -> list[Found]:
    """Return every mutant of some files, and those left out."""
    return [pair for file in files for pair in in_text(file.read_text("utf8"), file)]


def draw(mutants: Iterable[Mutant], number: int, seed: int = SEED) -> list[Mutant]:
    """Return ``number`` mutants at random, without replacement.

    Each gets a random place by hashing it with the seed, and the first ones are taken:
    mutants that appear or vanish later leave the others of the draw as they are.
    """

    def place(mutant: Mutant) -> bytes:
        return hashlib.sha256(repr((seed, *mutant)).encode()).digest()

    return sorted(sorted(mutants), key=place)[:number]


def mutated(text: str, site: Site) -> str:
    """Return a module's text with one expression changed, and nothing else."""
    lines = text.encode().splitlines(keepends=True)
    node = site.node
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    whole = text.encode()
    new = f"({ast.unparse(site.new)})".encode()
    return (whole[:start] + new + whole[end:]).decode()


def find(mutant: Mutant, present: dict[Mutant, Site]) -> Mutant | None:
    """Return the same mutant in another tree, or None where it is not to be told.

    It may stand in another statement, and then in another function, as long as only
    one place has the expression.
    """
    if mutant in present:
        return mutant
    ways: list[Callable[[Mutant], tuple[Any, ...]]] = [
        lambda m: (m.function, m.before, m.after, m.occurrence),
        lambda m: (m.before, m.after, m.operator),
    ]
    for way in ways:
        same = [m for m in present if way(m) == way(mutant)]
        if len(same) == 1:
            return same[0]
    return None
