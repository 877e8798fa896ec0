"""``sbc``: simulation-based calibration of a NumPyro model, with wrong posteriors.

The model simulates parameters and observations, in the shapes of its data. Then NUTS
draws parameters from the density with position u, prior p(u), simulated observations x,

    log p(u) + η log p(x' | u),                                                    (1)

with η = 1 and x' = x for the posterior. Three wrong posteriors run in the same compiled
program. SBC must reject them:

*posterior = prior*      η = 0: the data are ignored;
*η = 2*                  the data count twice;
*shuffled observations*  x' is x with its rows permuted. It is left out if the log
                         likelihood does not change, as for exchangeable rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import PyTree
from numpyro import distributions as dist
from numpyro import handlers
from numpyro.infer.util import constrain_fn, potential_energy
from numpyro.primitives import Messenger

from probmetric.arguments import check_counts, check_number
from probmetric.checks.check import Check, Problem, by_sbc
from probmetric.checks.sbc import Story, traced
from probmetric.checks.sbc import sbc as ranks_of
from probmetric.checks.uniformity import Ranks, uniformity
from probmetric.compilation import COMPILED_SOONEST
from probmetric.inference.sampling.predictive import Free
from probmetric.inference.sampling.target import (
    Arrays,
    Kwargs,
    Model,
    Static,
    Target,
    Tree,
    call_of,
    cast,
    fill_arguments,
    is_double,
    model_target,
    site_densities,
    split_arguments,
)
from probmetric.typing import Array, Scalar

SHUFFLED = "shuffled observations"
CONTROLS: Mapping[str, tuple[float, bool]] = {
    "posterior = prior": (0.0, False),
    "η = 2": (2.0, False),
    SHUFFLED: (1.0, True),
}
"""Wrong posteriors by name: η of Eq. (1), and whether rows are permuted."""


class World(NamedTuple):
    """Simulated data and settings of the posterior under test (Eq. 1)."""

    arrays: list[Array]
    observed: Arrays
    power: Scalar
    shuffled: Array


@dataclass(frozen=True)
class Calibration:
    """Result of ``sbc``.

    Parameters
    ----------
    model : str
        Name of the model.
    ranks : Ranks
        Ranks of the model's posterior.
    table : Dataset
        Tests of these ranks by ``uniformity``.
    controls : mapping of str to Dataset
        Tests of each wrong posterior by ``uniformity``.
    left_out : tuple of str
        Negative controls that were not run, because they are right for this model
        (shuffled observations, if rows are exchangeable).
    """

    model: str
    ranks: Ranks
    table: xr.Dataset
    controls: Mapping[str, xr.Dataset]
    left_out: tuple[str, ...] = ()

    @property
    def missed(self) -> tuple[str, ...]:
        """Wrong posteriors that were not rejected."""
        tables = self.controls.items()
        return tuple(k for k, t in tables if t.attrs["verdict"] != "disagree")

    @property
    def verdict(self) -> str:
        """Verdict on the model; not "agree" if a wrong posterior was not rejected."""
        verdict = str(self.table.attrs["verdict"])
        return "inconclusive" if verdict == "agree" and self.missed else verdict

    def __str__(self) -> str:
        """Return the counts and the verdict, and a line for each problem."""
        attrs = self.table.attrs
        n = len(self.controls)
        lines = [
            f"{self.model}: {len(self.ranks.ranks)} quantities in "
            f"{attrs['n_simulations']} simulations, {n - len(self.missed)} of {n} "
            f"wrong posteriors rejected: {self.verdict}"
        ]
        bad = self.table["entry"].to_numpy()[self.table["verdict"] == "disagree"]
        lines += [f"  {name} is not uniform" for name in bad]
        lines += [f"  not rejected: {name}" for name in self.missed]
        if attrs["verdict"] == "inconclusive":
            lines.append(
                "  too few simulations. Use about n_simulations="
                f"{attrs['n_needed']}, which detect a shift of {attrs['tol']:g} sd"
            )
        return "\n".join(lines)

    __repr__ = __str__


def sbc(
    model: Model,
    data: PyTree,
    *,
    args: Sequence[PyTree] = (),
    kwargs: Kwargs | None = None,
    seed: int = 0,
    identified: Sequence[str] | None = None,
    n_simulations: int = 400,
    n_control: int = 100,
    n_draws: int = 99,
    thin: int = 5,
    n_warmup: int = 200,
    target_accept: float = 0.8,
    dtype: str = "float64",
    progress: bool | None = None,
) -> Calibration:
    """Check by simulation that NUTS draws from the posterior of a model.

    The model simulates parameters and observations, and NUTS samples the posterior of
    each simulated data set. The rank of the true value among the draws must be uniform.
    This detects errors in the density, priors that the sampler cannot explore, and
    sites that are not identified.

    Parameters
    ----------
    model : callable
        NumPyro model ``model(data, *args, **kwargs)``. Its latent sites must be
        continuous and have proper priors. It must be possible to draw its observed
        sites.
    data : pytree of arrays
        Data of the model, with observations. Only the shapes of the observations are
        used. Other data (points, sizes) are shared by all simulations. A few dozen
        observations are enough.
    args, kwargs : optional
        Other arguments of the model, as in ``sample``.
    seed : int, default=0
        The same seed gives the same ranks.
    identified : sequence of str, optional
        Names of the sites and deterministics to rank. Default: all. The log likelihood
        is always ranked. If a linear map W is identified only up to rotation, rank
        M = WᵀW instead of W.
    n_simulations : int, default=400
        Number of simulations. 400 detect a common shift of a quarter of a posterior sd
        among ten quantities.
    n_control : int, default=100
        Number of simulations for each wrong posterior; 0 for none.
    n_draws, thin, n_warmup : int, defaults 99, 5 and 200
        Draws per simulation, iterations per draw, and warm-up iterations.
    target_accept : float in (0, 1), default=0.8
        Target acceptance probability of ``NUTS``.
    dtype : {"float64", "float32"}, default="float64"
        Precision.
    progress : bool, optional
        Whether to show progress. Default: a bar in terminals and notebooks, elsewhere a
        line every 10 s.

    Returns
    -------
    Calibration
        ``verdict`` is "agree" if the ranks are uniform and every wrong posterior was
        rejected. Otherwise it is "disagree" or "inconclusive". ``table`` has a row per
        test. ``plots.sbc`` draws the ranks.

    Raises
    ------
    ValueError
        If a latent site is discrete.
        If a prior is improper.
        If the model has a ``numpyro.factor``, from which nothing can be drawn.
        If the model has no observations.
        If ``identified`` has an unknown name.
    TypeError
        If the model cannot be called with these arguments.

    Notes
    -----
    Uniform ranks mean that draws and density belong to the same model. They do not mean
    that the model fits any data; use ``check_model`` for that. To use your own
    ``Target`` and ``Story``, call ``probmetric.checks.sbc``.

    References
    ----------
    Talts et al., "Validating Bayesian inference algorithms with simulation-based
    calibration", arXiv 1804.06788. Modrák et al., "Simulation-based calibration
    checking for Bayesian computation: the choice of test quantities", Bayesian Analysis
    2023.

    Examples
    --------
    >>> import numpy as np, numpyro, numpyro.distributions as dist
    >>> def model(data):
    ...     mu = numpyro.sample("mu", dist.Normal(0, 1))
    ...     numpyro.sample("x", dist.Normal(mu, 1), obs=data)
    >>> result = sbc(model, np.zeros(5), n_simulations=300, n_draws=39, thin=2)
    >>> result.verdict, result.missed, result.left_out
    ('agree', (), ('shuffled observations',))
    """
    (n_simulations,) = check_counts(n_simulations=n_simulations)
    n_control = check_number("n_control", n_control, 0, whole=True)
    settings: Any = {
        "n_draws": n_draws,
        "thin": thin,
        "n_warmup": n_warmup,
        "target_accept": float(target_accept),
        "chunk": min(50, n_simulations, n_control or n_simulations),
        "progress": progress,
    }
    ranking = _ranking(model, data, args, kwargs or {}, identified, dtype)
    left_out = () if not n_control or ranking.rows_matter() else (SHUFFLED,)
    chosen = [k for k in CONTROLS if n_control and k not in left_out]
    ranks = ranking(seed=seed, n_simulations=n_simulations, **settings)
    tables = {
        wrong: uniformity(
            ranking(wrong, seed=seed, n_simulations=n_control, **settings)
        )
        for wrong in chosen
    }
    name = getattr(model, "__name__", type(model).__name__)
    return Calibration(name, ranks, uniformity(ranks), tables, left_out)


def sbc_check(model: Model) -> Check:
    """Return a ``Check`` for ``validate`` that runs ``sbc`` for a model.

    The model is called with the problem's ``data``, ``prior`` and ``options``. The
    controls are the posteriors that are wrong for every model.
    """

    def ranked(problem: Problem[Any], n_simulations: int, wrong: str = "") -> Ranks:
        prior = () if problem.prior is None else (problem.prior,)
        ranking = _ranking(model, problem.data, prior, problem.options)
        return ranking(wrong, seed=0, n_draws=39, n_simulations=n_simulations)

    return by_sbc(
        "ranks of true values are uniform",
        estimate=partial(ranked, n_simulations=400),
        controls={
            wrong: partial(ranked, n_simulations=100, wrong=wrong)
            for wrong in CONTROLS
            if wrong != SHUFFLED
        },
    )


class _Ranking(NamedTuple):
    """Simulations of a model, and the target to rank in them."""

    target: Target
    story: Story
    world: World
    dtype: str

    def __call__(self, wrong: str = "", **settings: Any) -> Ranks:
        """Return the ranks of the posterior, or of a wrong one by name."""
        power, shuffled = CONTROLS.get(wrong, (1.0, False))
        world = self.world._replace(
            power=np.asarray(power), shuffled=np.asarray(shuffled)
        )
        return ranks_of(self.target, self.story, world, dtype=self.dtype, **settings)

    def rows_matter(self) -> bool:
        """Return whether the log likelihood changes if observations are shuffled."""
        story, world = self.story, self.world

        @partial(jax.jit, compiler_options=COMPILED_SOONEST)
        def likelihood(seed: Array, world: World) -> Scalar:
            key, elsewhere = jax.random.split(jax.random.key(seed))
            at = story.simulate(elsewhere, world)[0]
            return story.log_likelihood(at, story.simulate(key, world)[1])

        shuffled = world._replace(shuffled=np.asarray(True))
        with jax.enable_x64(is_double(self.dtype)):
            for seed in range(3):
                at = np.asarray(seed)
                both = [float(likelihood(at, w)) for w in (world, shuffled)]
                if not np.isclose(*both, rtol=1e-5, atol=0):
                    return True
        return False


def _ranking(
    model: Model,
    data: PyTree,
    args: Sequence[PyTree],
    kwargs: Kwargs,
    identified: Sequence[str] | None = None,
    dtype: str = "float64",
) -> _Ranking:
    """Check that a model can simulate, and prepare its simulations."""
    arguments = call_of(model, data, args, kwargs)
    with jax.enable_x64(is_double(dtype)):
        called, named = cast(arguments, dtype), cast(dict(kwargs), dtype)
        tree, static, arrays = split_arguments(called, named)
        key = jax.random.key(0)
        shapes = model_target(model, called, named)[2]
        kinds: dict[str, type] = {}

        def drawn(key: jax.Array, arrays: list[Array]) -> Arrays:
            sites = traced(_free(model), key, *fill_arguments(tree, static, arrays))
            kinds.update({name: type(site["fn"]) for name, site in sites.items()})
            return {name: site["value"] for name, site in sites.items()}

        # Shapes are enough, and compile nothing.
        sites = jax.eval_shape(drawn, key, arrays)
        for name, kind in kinds.items():
            if issubclass(kind, dist.Unit):
                raise ValueError(
                    "model must have only observations that can be drawn, got "
                    f"numpyro.factor({name!r}, ...). Write it as a Distribution with "
                    "numpyro.sample(..., obs=...)."
                )
        latent = tuple(sorted(shapes))
        observed: Arrays = {
            name: np.zeros(site.shape, site.dtype)
            for name, site in sites.items()
            if name not in shapes
        }
        one = np.asarray(1.0)
        world = cast(World(arrays, observed, one, np.asarray(False)), dtype)
        every, story = _cached(model, tree, static, latent, None)
        values = jax.eval_shape(
            lambda key, world: every.functionals(story.simulate(key, world)[0], world),
            key,
            world,
        )
        unknown = [name for name in identified or () if name not in values]
        if unknown:
            raise ValueError(
                f"identified must have names among {sorted(values)}, got {unknown}"
            )
        keep = None if identified is None else tuple(identified)
        target = _cached(model, tree, static, latent, keep)[0]
        return _Ranking(target, story, world, dtype)


class _Powered(Messenger):
    """Raise the likelihood to a power."""

    def __init__(self, fn: Any, power: Any) -> None:
        super().__init__(fn)
        self.power = power

    def process_message(self, msg: Any) -> None:
        """Scale the log density of an observed site."""
        if msg["type"] == "sample" and msg["is_observed"]:
            scale = msg["scale"]
            msg["scale"] = self.power if scale is None else scale * self.power


def _free(model: Model) -> Any:
    return Free(model)


def _permuted(key: jax.Array, shuffled: Array, value: Array) -> Array:
    """Permute the rows of observations if ``shuffled``."""
    if jnp.ndim(value) == 0:
        return value
    return jnp.where(shuffled, jax.random.permutation(key, value), value)


@lru_cache(maxsize=64)
def _cached(
    model: Model,
    tree: Tree,
    static: Static,
    latent: tuple[str, ...],
    keep: tuple[str, ...] | None,
) -> tuple[Target, Story]:
    """Return the density of Eq. (1) and its simulator, cached per compiled program."""

    def called(world: World) -> tuple[Any, Any, dict[str, Any]]:
        args, kwargs = fill_arguments(tree, static, world.arrays)
        observed: Any = dict(world.observed)
        return handlers.condition(model, data=observed), args, kwargs

    def log_density(position: Arrays, world: World) -> Scalar:
        given, args, kwargs = called(world)
        powered: Any = _Powered(given, world.power)
        return -potential_energy(powered, args, kwargs, position)

    def functionals(position: Arrays, world: World) -> Arrays:
        given, args, kwargs = called(world)
        found = constrain_fn(given, args, kwargs, position, return_deterministic=True)
        return {k: v for k, v in found.items() if keep is None or k in keep}

    def simulate(key: jax.Array, world: World) -> tuple[Arrays, World]:
        _, args, kwargs = called(world)
        draw, permute = jax.random.split(key)
        sites = traced(_free(model), draw, args, kwargs)
        position = {
            name: dist.biject_to(sites[name]["fn"].support).inv(sites[name]["value"])
            for name in latent
        }
        # One key: sites that are observed together keep their rows together.
        observed = {
            name: _permuted(permute, world.shuffled, site["value"])
            for name, site in sites.items()
            if name not in latent
        }
        return position, world._replace(observed=observed)

    def log_likelihood(position: Arrays, world: World) -> Scalar:
        given, args, kwargs = called(world)
        sites = constrain_fn(given, args, kwargs, position)
        return jnp.asarray(site_densities(given, args, kwargs, sites)[1])

    return Target(log_density, functionals), Story(simulate, log_likelihood)
