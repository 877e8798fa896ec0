"""Leave-one-out cross-validation for independent observations.

``loo`` calls ArviZ's PSIS-LOO after a validity check. It estimates Σ_i log p(y_i |
y_-i). Pairs that share points are not independent, because the other pairs predict the
left-out pair. For metrics learned from labels use ``cross_validate.held_out``.
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
"""Largest change of elpd by unreliable terms without a warning, in standard errors."""


def loo(draws: xr.DataTree, *, var_name: str | None = None) -> Any:
    """Estimate the expected log predictive density (elpd) by leave-one-out (PSIS-LOO).

    Each observation of the model, such as the label of a pair, is predicted from the
    other observations. To compare learners by the classes of new points, use
    ``held_out`` instead.

    Parameters
    ----------
    draws : DataTree
        Result of ``sample(..., method="nuts", log_likelihood=True)``. For
        ``PointEffectsLCA`` an observation is a point with all its pairs, so each pair
        is in two observations.
    var_name : str, optional
        Name of the observed NumPyro site. Required if there are several.

    Returns
    -------
    arviz.ELPDData
        Estimate ``elpd``, its terms ``elpd_i`` (one for each observation) and
        ``pareto_k``. A term is unreliable if its ``pareto_k`` is above ``good_k`` (0.7
        or less). Use ``az.compare({"p = 1": loo(a), "p = 2": loo(b)})`` to compare
        models on one dataset.

    Raises
    ------
    ValueError
        - If no log likelihood is stored.
        - If draws are from an approximation or the bootstrap.
        - If the learning rate or a data weight is not 1.
        - If pairs in ``Pairs`` share points, except for ``PointEffectsLCA``. Shared
          points are *not* detected in your own models: do not use ``loo`` if two
          observations share a point.

    Notes
    -----
    ``loo`` warns if unreliable terms could change elpd by more than 0.1 standard
    errors. The possible change of a term is the larger of two absolute values: the
    term, and its difference from the in-sample log density.

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
    >>> result = loo(pm.sample(model, y, log_likelihood=True))
    >>> int(result.n_data_points), bool(result.pareto_k.max() < 0.7)
    (20, True)
    """
    import arviz as az

    _check_valid(draws)
    if POINTS in draws.children:
        groups = {"posterior": draws["posterior"], LIKELIHOOD: draws[POINTS]}
        draws = xr.DataTree.from_dict({k: v.to_dataset() for k, v in groups.items()})
    # ArviZ warns about every high k-hat, also of negligible terms.
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        result = az.loo(draws, pointwise=True, var_name=var_name)
    _warn_of_unreliable(result, draws[LIKELIHOOD].to_dataset(), var_name)
    return result


def _warn_of_unreliable(result: Any, terms: xr.Dataset, var_name: str | None) -> None:
    log_p = terms[next(iter(terms)) if var_name is None else var_name]
    log_p = log_p.stack(sample=("chain", "draw")).transpose("sample", ...).to_numpy()
    in_sample = logsumexp(log_p, 0) - np.log(len(log_p))
    elpd, bad = result.elpd_i.to_numpy(), result.pareto_k.to_numpy() > result.good_k
    size = np.maximum(np.abs(elpd), np.abs(in_sample - elpd))[bad].sum()
    if bad.any() and not size <= NEGLIGIBLE * result.se:
        warnings.warn(
            "loo: elpd is unreliable. k-hat, the diagnostic of importance sampling, "
            f"is above {result.good_k:.2f} for {bad.sum()} of {bad.size} "
            f"observations, which contribute {elpd[bad].sum():.3g} to elpd "
            f"{result.elpd:.3g} (standard error {result.se:.2g}). Refit without each "
            "of these observations, or use a model that depends less on single "
            "observations.",
            stacklevel=3,
        )


def _check_valid(draws: xr.DataTree) -> None:
    if not hasattr(draws, "children"):
        raise ValueError(
            f"draws must be a DataTree from sample(...), got {type(draws).__name__}."
        )
    if not any(pointwise(draws, group) for group in (LIKELIHOOD, PSEUDO, POINTS)):
        stored = (
            "one number per draw"
            if LIKELIHOOD in draws.children
            else f"groups {sorted(draws.children)}"
        )
        raise ValueError(
            f"draws must contain a log likelihood for each observation, got {stored}. "
            "Sample with log_likelihood=True."
        )
    reason = no_unit(draws, points=POINTS in draws.children)
    if reason is not None:
        raise ValueError(reason)
    method = draws.attrs.get("method", "nuts")
    if method != "nuts":
        raise ValueError(
            f"draws must come from sample(method='nuts'), got {method!r}. Importance "
            "sampling requires draws from the exact posterior."
        )
