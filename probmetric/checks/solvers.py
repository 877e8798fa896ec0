"""Iterations that learners share, against their definitions in NumPy.

A fit ends at the same place by many ways, so that no check of fits sees a wrong step.
Here whole runs are compared: the points passed, the evaluations and how it ended.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

from probmetric.checks.check import Problem, Values, by_algebra
from probmetric.checks.sides import inverse
from probmetric.inference.sampling.laplace import Laplace, laplace_fit, pareto_khat
from probmetric.inference.sampling.svi import SVI
from probmetric.inference.sampling.target import Draws, Posterior, Target
from probmetric.inference.solvers.em import run_em
from probmetric.inference.solvers.lbfgs_traced import MEMORY, SUFFICIENT, minimise
from probmetric.inference.solvers.result import Result
from probmetric.inference.two_stage.proportional import best_root, proportional_m_step
from probmetric.typing import Array, Scalar

PACE = 0.19
"""Of the ascent that stands for EM."""

GAP = 1e-6

N_SWEEPS = 300


def _hill(theta: Any, data: Any) -> Any:
    """Return a concave function of three coordinates, flat in one."""
    centre, P, bend = data
    off = theta - centre
    return -(off @ P @ off) / 2 - bend * (off**4).sum() / 4


def ascend(theta: Array, data: Any) -> tuple[Array, Scalar]:
    """Take a step uphill: no EM, but monotone and slow as EM is."""
    centre, P, bend = data
    off = theta - centre
    return theta - PACE * (P @ off + bend * off**3), _hill(theta, data)


def descend(theta: Array, data: Any) -> tuple[Array, Scalar]:
    """Take a step downhill, which is no EM."""
    centre, P, bend = data
    off = theta - centre
    return theta + PACE * (P @ off + bend * off**3), _hill(theta, data)


def _hills() -> dict[str, tuple[Any, np.ndarray, Any, int]]:
    """Return map, start, data and most steps by name."""
    rng = np.random.default_rng(8)
    U = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    P = (U * [0.02, 0.3, 1.0]) @ U.T
    centre = np.array([1.0, -2.0, 0.5])
    start = centre + np.array([1.1, -0.9, 1.3])
    return {
        "bent": (ascend, start, (centre, P, 0.7), 200),
        "straight": (ascend, start, (centre, P, 0.0), 200),
        "near": (ascend, centre + 1e-3, (centre, P, 0.7), 200),
        "cut short": (ascend, start, (centre, P, 0.7), 3),
        "downhill": (descend, start, (centre, P, 0.0), 50),
    }


def _loop_by_hand(
    step: Any, theta: np.ndarray, data: Any, most: int, accelerate: bool
) -> dict[str, Any]:
    """Iterate until the gain, times 1/(1 - ratio²) of two steps, is below ``GAP``."""
    last, before, reach, evaluations = -np.inf, np.inf, 4.0, 1
    trace, how = list[float](), Result.MAX_STEPS
    eps = np.finfo(float).eps
    while how == Result.MAX_STEPS and len(trace) < most:
        one, value = step(theta, data)
        after = float(np.linalg.norm(one - theta))
        old, gain = theta, value - last
        if not accelerate:
            theta, evaluations = one, evaluations + 1
        else:
            two, value_one = step(one, data)
            r, v = one - old, two - 2 * one + old
            before, after = after, float(np.linalg.norm(two - one))
            a = min(max(before / np.linalg.norm(v), 1.0), reach)
            far = old + 2 * a * r + a * a * v
            beyond, value_far = step(far, data)
            gain, evaluations = value_one - value, evaluations + 3
            if value_far >= value_one:
                theta, reach = beyond, (4 * reach if a >= reach else reach)
            else:
                theta, reach = two, max(reach / 4, 1.0)
        size = max(1.0, abs(value))
        still = after <= 8 * eps * max(1.0, float(np.linalg.norm(theta)))
        ratio = 0.0 if still else min(after / before, 1.0)
        gap = gain / max(1 - ratio**2, eps)
        if gap <= GAP * size and (trace or accelerate):
            how = Result.CONVERGED
        if last - value > 1e-9 * size:
            how = Result.DECREASED
        trace.append(float(value))
        last, before = value, after
    return {
        "end": theta,
        "objective": _hill(theta, data),
        "trace": trace,
        "steps": float(len(trace)),
        "evaluations": float(evaluations),
        "how": float(how),
    }


def loops_by_hand(problem: Problem[Any]) -> Values:
    """Run EM, plain and accelerated, on functions that do not depend on the data."""
    del problem
    found: dict[str, Any] = {}
    for name, (step, start, data, most) in _hills().items():
        for way in (False, True):
            run = _loop_by_hand(step, start, data, most, way)
            said = f"{name}, {'accelerated' if way else 'plain'}"
            found |= {f"{key}, {said}": value for key, value in run.items()}
    return found


def loops(problem: Problem[Any], plain: bool = False) -> Values:
    """Return the same of ``run_em``; never accelerated, if asked."""
    del problem
    found: dict[str, Any] = {}
    for name, (step, start, data, most) in _hills().items():
        for way in (False, True):
            said = f"{name}, {'accelerated' if way else 'plain'}"
            options: Any = {"max_steps": most, "tol": GAP}
            run = run_em(step, start, data, accelerate=way and not plain, **options)
            n = int(run.n_steps)
            values = {
                "end": run.params,
                "objective": run.objective,
                "trace": np.resize(np.asarray(run.trace)[:n], _length(name, way)),
                "steps": float(n),
                "evaluations": float(run.n_evaluations),
                "how": float(run.result),
            }
            found |= {f"{key}, {said}": value for key, value in values.items()}
    return found


def _length(name: str, accelerate: bool) -> int:
    step, start, data, most = _hills()[name]
    return len(_loop_by_hand(step, start, data, most, accelerate)["trace"])


def _bowl() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return A and b of a quadratic, and a start."""
    rng = np.random.default_rng(2)
    d = MEMORY + 5
    U = np.linalg.qr(rng.normal(size=(d, d)))[0]
    A = (U * np.geomspace(0.3, 40.0, d)) @ U.T
    return A, rng.normal(size=d), 2.0 * rng.normal(size=d)


def _smooth(x: Any) -> tuple[Any, Any]:
    """Return a quadratic and its gradient, of NumPy's arrays and of JAX's."""
    A, b, _ = _bowl()
    return x @ A @ x / 2 - b @ x, A @ x - b


def _bent(x: Any) -> tuple[Any, Any]:
    """Return a bent valley and its gradient."""
    xp = np if isinstance(x, np.ndarray) else jnp
    valley, off, nothing = x[1:] - x[:-1] ** 2, 1 - x, xp.zeros(1)
    up, down = 10 * valley, 20 * valley * x[:-1]
    slope = xp.append(nothing, up) - xp.append(down, nothing) - 2 * off
    return xp.sum(5 * valley**2) + xp.sum(off**2), slope


def _bowls() -> dict[str, tuple[Callable[[Any], Any], np.ndarray, int]]:
    """Return functions to minimise with their gradients, starts and most steps."""
    start, few = _bowl()[2], np.array([-1.2, 1.0, 0.4])
    return {
        "quadratic": (_smooth, start, 100),
        "valley": (_bent, few, 100),
        "valley, cut short": (_bent, few, 7),
    }


def _descent_by_hand(
    both: Callable[[Any], Any], x: np.ndarray, most: int
) -> dict[str, Any]:
    """Form the inverse Hessian of the newest pairs as a matrix, and step along it."""
    f, g = (np.asarray(a) for a in both(x))
    pairs, trace, evaluations = list[tuple[np.ndarray, np.ndarray]](), list[float](), 1
    eps, how = np.finfo(float).eps, Result.MAX_STEPS
    while len(trace) < most:
        H = np.eye(len(x))
        if pairs and pairs[-1][0] @ pairs[-1][1] > 0:
            s, y = pairs[-1]
            H = H * (s @ y) / (y @ y)
        for s, y in pairs[-MEMORY:]:
            if s @ y <= 0:  # Of no use: the memory has a place less.
                continue
            V = np.eye(len(x)) - np.outer(y, s) / (s @ y)
            H = V.T @ H @ V + np.outer(s, s) / (s @ y)
        p = -H @ g
        slope, size = float(g @ p), max(1.0, abs(float(f)))
        if -slope / 2 <= GAP * size:
            how = Result.CONVERGED
            break
        t = 1.0 if trace else 1 / max(1.0, float(np.linalg.norm(g)))
        while True:
            value, new = (np.asarray(a) for a in both(x + t * p))
            evaluations += 1
            if value <= f + SUFFICIENT * t * slope + 8 * eps * size:
                break
            t /= 2
        pairs.append((t * p, new - g))
        x, f, g = x + t * p, value, new
        trace.append(float(f))
    return {
        "end": x,
        "value": f,
        "trace": np.array(trace),
        "steps": float(len(trace)),
        "evaluations": float(evaluations),
        "how": float(how),
    }


def descents_by_hand(problem: Problem[Any]) -> Values:
    """Run L-BFGS as the dense update that it stands for."""
    del problem
    found: dict[str, Any] = {}
    for name, (function, start, most) in _bowls().items():
        run = _descent_by_hand(function, start, most)
        found |= {f"{key}, {name}": value for key, value in run.items()}
    return found


def descents(problem: Problem[Any], most: int | None = None) -> Values:
    """Return the same of ``minimise``; stopped earlier, if asked."""
    found: dict[str, Any] = {}
    known = descents_by_hand(problem)
    for name, (function, start, steps) in _bowls().items():
        run = _descended(function, start, most or steps)
        n = int(run.n_steps)
        length = len(np.ravel(known[f"trace, {name}"]))
        trace = np.resize(np.asarray(run.trace)[:n], length)
        values = {
            "end": run.x,
            "value": run.value,
            "trace": trace,
            "steps": float(n),
            "evaluations": float(run.n_evaluations),
            "how": float(run.result),
        }
        found |= {f"{key}, {name}": value for key, value in values.items()}
    return found


@partial(jax.jit, static_argnames=("function", "most"))
def _descended(function: Callable[[Any], Any], start: Array, most: int) -> Any:
    return minimise(function, start, max_steps=most, tol=GAP)


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function crosses zero, to all digits."""
    found: Any = brentq(function, low, high, xtol=1e-15)
    return float(found)


def _cubics() -> np.ndarray:
    """Return cubics with three roots in (0, 1), with fewer, and of lower degree."""
    rng = np.random.default_rng(4)
    inside = [np.poly(r) for r in rng.uniform(0.05, 0.95, (12, 3))]
    mixed = [np.poly(r) for r in rng.uniform(-2, 2, (12, 3))]
    signed = [-c for c in inside[:6] + mixed[:6]]
    lower = [np.append(0.0, np.poly(r)) for r in rng.uniform(0.1, 0.9, (3, 2))]
    return np.array([*inside, *mixed, *signed, *lower])


def _moments() -> tuple[Array, ...]:
    rng = np.random.default_rng(5)
    G = rng.normal(size=(2, 2, 3, 6))
    between, within = (a @ np.swapaxes(a, -1, -2) for a in G)
    mass = np.array([9.0, 14.0])
    return 4 * between, 9 * within, mass, 2.5 * mass


def roots_by_hand(problem: Problem[Any]) -> Values:
    """Take roots by eigenvalues (NumPy), and the M-step of (Σ, α) by its profile."""
    best: list[float] = []
    for cubic in _cubics():
        every = np.roots(cubic)
        real = every.real[np.abs(every.imag) < 1e-9]
        real = real[(real > 0) & (real < 1)]
        heights = np.polyval(np.polyint(cubic), real)
        best.append(real[np.argmax(heights)] if len(real) else -1.0)
    found: dict[str, Any] = {"best roots": best}
    between, within, R, N = _moments()
    d = 3
    for name, prior in (("", None), (", prior", problem.prior)):
        pull, extra, a, b = 0.0, 0.0, 1.0, 1.0
        if prior is not None:
            pull, extra = 2.0 * np.eye(d), prior.df + d + 2
            a, b = prior.alpha_a, prior.alpha_b

        def covariances(t: float, pull: Any = pull, extra: float = extra) -> np.ndarray:
            total = between / (1 - t) + within / t + pull
            return total / (R + N + extra)[:, None, None]

        def fall(t: float, extra: float = extra, a: float = a, b: float = b) -> float:
            S = covariances(t)
            logs = np.linalg.slogdet(S)[1] @ (R + N + extra)
            share = d * N.sum() * np.log(t) + d * R.sum() * np.log1p(-t)
            return float(
                (logs + share) / 2 - (a - 1) * np.log(t) - (b - 1) * np.log1p(-t)
            )

        grid = np.linspace(0.001, 0.999, 999)
        t = grid[np.argmin([fall(t) for t in grid])]
        # The slope has all the digits that a search for the least leaves out.
        t = root(partial(_slope, fall), t - 2e-3, t + 2e-3)
        found[f"α{name}"], found[f"Σ{name}"] = t, covariances(t)
    return found


def _slope(function: Callable[[float], float], t: float) -> float:
    return (function(t + 1e-5) - function(t - 1e-5)) / 2e-5


def roots(problem: Problem[Any], sweeps: int = N_SWEEPS) -> Values:
    """Return the same of the package; after fewer sweeps, if asked."""

    def one(cubic: Array) -> Array:
        whole = jnp.concatenate([cubic / jnp.array([4, 3, 2, 1.0]), jnp.zeros(1)])
        return best_root(cubic, 0.0, 1.0, lambda t: jnp.polyval(whole, t))

    best = np.asarray(jax.jit(jax.vmap(one))(_cubics()))
    found: dict[str, Any] = {"best roots": np.where(np.isnan(best), -1.0, best)}
    for name, prior in (("", None), (", prior", problem.prior)):
        pull = 0.0 if prior is None else jnp.tile(2.0 * jnp.eye(3), (2, 1, 1))
        options: Any = {"prior": prior, "pull": pull, "sweeps": sweeps}
        moments = [jnp.asarray(a) for a in _moments()]
        B, W, R, N = moments
        S, alpha = proportional_m_step(B, W, R, N, 0.5, **options)
        found[f"α{name}"], found[f"Σ{name}"] = alpha, S
    return found


def _tails(position: Any, data: Any) -> Array:
    """Return the log density of Student-t's with ``data`` degrees of freedom, moved."""
    z = (position["a"] - 1.0) * 2.0 + jnp.sum(position["b"])
    rest = position["b"] + 0.5
    both = jnp.append(rest, z)
    return -(data + 1) / 2 * jnp.sum(jnp.log1p(both**2 / data))


def _where(position: Any, data: Any) -> dict[str, Array]:
    del data
    return {"x": jnp.append(position["b"], position["a"])}


TAILS = Target(_tails, _where)
BEGIN = {"a": np.zeros(()), "b": np.zeros(2)}


def approximations_by_hand(problem: Problem[Any]) -> Values:
    """Give the mode, its curvature, and log weights of the very draws, for k-hat."""
    del problem
    # z = 2a + Σb - 2 and b + ½ are zero at the mode: a = 3/2.
    mode = np.array([-0.5, -0.5, 1.5])
    J = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 2.0]])
    df = 4.0
    H = (df + 1) / df * J.T @ J
    found: dict[str, Any] = {"mode": mode, "covariance": inverse(H)}
    draws = _approximated(df)
    x = np.asarray(draws.values["x"])[0]
    spread = np.sum((x - mode) @ H * (x - mode), 1) / 2
    both = (x - mode) @ J.T
    log_p = -(df + 1) / 2 * np.sum(np.log1p(both**2 / df), 1)
    found["k-hat"] = pareto_khat(log_p + spread)
    # Of an exact Gaussian the bound is the log of its integral.
    found["bound"] = 1.5 * np.log(2 * np.pi) - np.linalg.slogdet(J)[1]
    return found


def _approximated(df: float) -> Draws:
    start = Posterior(TAILS, np.asarray(df), BEGIN)
    return Laplace().draw(start, seed=4, n_draws=500)


def _attribute(draws: Draws, name: str) -> float:
    value: Any = draws.attributes[name]
    return float(value)


def approximations(problem: Problem[Any], df: float = 4.0) -> Values:
    """Return the same of ``Laplace`` and ``SVI``; of other tails, if asked."""
    del problem
    gaussian = laplace_fit(TAILS, np.asarray(df), BEGIN)
    draws = _approximated(df)
    order = np.array([1, 2, 0])  # a comes first in a position
    factor = np.asarray(gaussian.factor)[order]
    centre = gaussian.mean
    # Tails of a Gaussian: SVI's bound has no gap.
    normal = SVI(n_steps=3000, step_size=0.02, n_particles=8)
    normal_draws = normal.draw(
        Posterior(TAILS, np.asarray(1e9), BEGIN), seed=1, progress=False
    )
    # Means over noisy steps: to a tenth.
    exact = 1.5 * np.log(2 * np.pi) - np.log(2.0)
    bound, khat = _attribute(normal_draws, "elbo"), _attribute(draws, "khat")
    return {
        "mode": np.append(centre["b"], centre["a"]),
        "covariance": factor @ factor.T,
        "k-hat": khat,
        "bound": exact if abs(bound - exact) < 0.1 else bound,
    }


LOOPS = by_algebra(
    "EM's loop, plain and accelerated, is the one that defines it, step by step",
    reference=loops_by_hand,
    estimate=loops,
    controls={"never accelerated": partial(loops, plain=True)},
    rtol=1e-7,
    atol=1e-10,
)
DESCENT = by_algebra(
    "L-BFGS takes the steps of the dense update",
    reference=descents_by_hand,
    estimate=descents,
    controls={"stopped earlier": partial(descents, most=5)},
    rtol=1e-6,
)
ROOTS = by_algebra(
    "roots, and the M-step of W = αΣ, are the best there are",
    reference=roots_by_hand,
    estimate=roots,
    controls={"one sweep for many": partial(roots, sweeps=1)},
    rtol=1e-6,
)
APPROXIMATIONS = by_algebra(
    "Laplace has the mode's curvature, k-hat that of its weights, SVI a tight bound",
    reference=approximations_by_hand,
    estimate=approximations,
    controls={"heavier tails": partial(approximations, df=2.0)},
    # The mode is found to a relative slope of 1e-6.
    rtol=1e-4,
)
