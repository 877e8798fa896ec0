"""Leave-one-out, where units are independent.

``loo`` is ArviZ's PSIS-LOO after a check: it estimates Σ_i log p(y_i | y_-i) from
draws of one posterior, which means something only if the draws are of *the* posterior
(not tempered, not an approximation, no bootstrap) and if leaving out one unit leaves
the others what they were. Pairs that share points fail the second: the left-out pair
is mostly known from the others. Whatever fails raises an error with the reason; for
every learner of a metric from labels there is ``cross_validate.held_out``.

Draws of ``PointEffectsLCA`` have terms a point: to leave a point out is to leave out
all its pairs and its effect. These units are exchangeable.
"""

import warnings
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from probmetric.inference.sampling.units import (
    LIKELIHOOD,
    POINTS,
    PSEUDO,
    no_unit,
    pointwise,
)

NEGLIGIBLE = 0.1
"""Standard errors of elpd up to which unreliable terms are no reason for a warning."""


def loo(draws: xr.DataTree, *, var_name: str | None = None) -> Any:
    """Return the expected log predictive density of a unit left out (PSIS-LOO).

    Parameters
    ----------
    draws : DataTree
        Of ``sample(..., method="nuts", log_likelihood=True)``, the package's or an
        estimator's. Of ``PointEffectsLCA`` the units are points, left out with all
        their pairs: each pair is in two terms.
    var_name : str, optional
        Which observed site, where there are several.

    Returns
    -------
    arviz.ELPDData
        With pointwise values and ``pareto_k``: above ``good_k`` (0.7 or less) the term
        of that unit is unreliable. A warning follows if these terms matter: if their
        sizes sum to more than 0.1 standard errors of elpd. The size of a term is the
        larger of |elpd_i| and of its difference to the in-sample log density.
        ``az.compare({"p = 1": loo(a), "p = 2": loo(b)})`` compares models of one data
        set.

    Raises
    ------
    ValueError
        Where leave-one-out is not valid: no log likelihood stored; draws of an
        approximation or of the bootstrap; a learning rate or data weights other than
        one; pairs of the package's ``Pairs`` that share points. In a model of your own
        nothing tells which observations share points: there it is for you to leave
        ``loo`` alone unless no two do.

    References
    ----------
    Vehtari, Gelman, Gabry, "Practical Bayesian model evaluation using leave-one-out
    cross-validation and WAIC", Statistics and Computing 27, 2017.

    Examples
    --------
    >>> import numpy as np, numpyro, numpyro.distributions as dist
    >>> import probmetric as pm
    >>> def model(y):
    ...     mean = numpyro.sample("mean", dist.Normal(0, 3))
    ...     numpyro.sample("y", dist.Normal(mean, 1), obs=y)
    >>> y = np.random.default_rng(0).normal(1, 1, 20)
    >>> found = loo(pm.sample(model, y, log_likelihood=True))
    >>> int(found.n_data_points), bool(found.pareto_k.max() < 0.7)
    (20, True)
    """
    import arviz as az

    _refuse_invalid(draws)
    if POINTS in draws.children:
        kept = {"posterior": draws["posterior"], LIKELIHOOD: draws[POINTS]}
        draws = xr.DataTree.from_dict({k: v.to_dataset() for k, v in kept.items()})
    # ArviZ warns of any high k-hat, also of negligible terms.
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        found = az.loo(draws, pointwise=True, var_name=var_name)
    _warn_of_unreliable(found, draws[LIKELIHOOD].to_dataset(), var_name)
    return found


def _warn_of_unreliable(result: Any, terms: xr.Dataset, var_name: str | None) -> None:
    """Warn if terms of high k-hat are a relevant part of elpd."""
    log_p = terms[next(iter(terms)) if var_name is None else var_name]
    log_p = log_p.stack(sample=("chain", "draw")).transpose("sample", ...).to_numpy()
    in_sample = logsumexp(log_p, 0) - np.log(len(log_p))
    elpd, bad = result.elpd_i.to_numpy(), result.pareto_k.to_numpy() > result.good_k
    size = np.maximum(np.abs(elpd), np.abs(in_sample - elpd))[bad].sum()
    if bad.any() and not size <= NEGLIGIBLE * result.se:
        warnings.warn(
            f"loo: k-hat is above {result.good_k:.2f} for {bad.sum()} of {bad.size} "
            f"units that contribute {elpd[bad].sum():.3g} to elpd {result.elpd:.3g} "
            f"(standard error {result.se:.2g}). elpd is unreliable. Use a model that "
            "single units influence less, or refit without each of these units",
            stacklevel=3,
        )


def _refuse_invalid(draws: xr.DataTree) -> None:
    if not hasattr(draws, "children"):
        raise ValueError(
            f"draws: expected a DataTree of sample(...), got {type(draws).__name__}"
        )
    groups = (LIKELIHOOD, PSEUDO, POINTS)
    if not any(pointwise(draws, group) for group in groups):
        raise ValueError(
            "draws: expected a term of the log likelihood for each observation (sample "
            f"with log_likelihood=True), got {_got(draws)}"
        )
    reason = no_unit(draws, points=POINTS in draws.children)
    if reason is not None:
        raise ValueError(reason)
    method = draws.attrs.get("method", "nuts")
    if method != "nuts":
        raise ValueError(
            "draws: expected draws of the posterior itself (method='nuts'), got "
            f"{method!r}, whose draws PSIS would reweight from the wrong density"
        )


def _got(draws: xr.DataTree) -> str:
    """Say what is there in the place of terms."""
    if LIKELIHOOD in draws.children:
        return "one number a draw"
    return f"groups {sorted(draws.children)}"
