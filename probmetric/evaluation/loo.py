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
    """Estimate how well a model predicts new observations, by leave-one-out.

    The result (elpd) is the sum of log predictive densities of the observations, such
    as labels of pairs. Larger is better. Each observation is predicted from all others,
    by importance sampling instead of refits (PSIS-LOO). To compare learners by the
    classes of new points, use ``held_out`` instead.

    Parameters
    ----------
    draws : DataTree
        Result of ``sample(..., method="nuts", log_likelihood=True)``. For
        ``PointEffectsLCA``, all pairs of a point are left out together, once for each
        point.
    var_name : str, optional
        Name of the observed variable (NumPyro sample site). Required if there are
        several.

    Returns
    -------
    arviz.ELPDData
        Estimate ``elpd`` and its terms ``elpd_i``, one for each observation.
        ``pareto_k`` is a diagnostic of each term: above ``good_k`` the term is
        unreliable. ``good_k`` is 0.7, or less for few draws. Use ``az.compare({"p = 1":
        loo(a), "p = 2": loo(b)})`` to compare models on one dataset.

    Raises
    ------
    ValueError
        - If no log likelihood is stored.
        - If draws are from an approximation or the bootstrap.
        - If the learning rate (power of the likelihood) or a data weight is not 1.
        - If pairs of a ``pm.Pairs`` dataset share points, except for
          ``PointEffectsLCA``. Shared points are *not* detected in your own models: do
          not use ``loo`` if two observations share a point.

    Notes
    -----
    ``loo`` warns if unreliable terms could change elpd by more than 0.1 standard
    errors. A term e could change by ``max(|e|, |e - s|)``, where s is the log density
    of the observation if it is not left out.

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
    reason = no_unit(draws, points=POINTS in draws.children)
    if reason is not None:
        raise ValueError(reason)
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
    method = draws.attrs.get("method", "nuts")
    if method != "nuts":
        raise ValueError(
            f"draws must come from sample(method='nuts'), got {method!r}. Importance "
            "sampling requires draws from the exact posterior."
        )
