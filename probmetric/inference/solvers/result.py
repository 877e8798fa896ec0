"""``Fit`` and ``Result``: the result of a fit, with a remedy for failures.

Inside ``jit`` a failure is returned as an integer ``Result`` code. The estimators
convert failure codes to warnings or errors with the remedy.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, PyTree

from probmetric.typing import Array, ArrayLike


class Result(IntEnum):
    """Outcome of a fit.

    Examples
    --------
    >>> Result(1).name, REMEDY[Result.MAX_STEPS][:26]
    ('MAX_STEPS', 'the step limit was reached')
    """

    CONVERGED = 0
    MAX_STEPS = 1
    DECREASED = 2
    NONFINITE = 3


REMEDY = {
    Result.CONVERGED: "the stopping rule on the gradient or the gap was met",
    Result.MAX_STEPS: (
        "the step limit was reached before the stopping rule was met: raise max_steps "
        "or tol, or use a stronger prior or another solver if the learner has them"
    ),
    Result.DECREASED: (
        "the objective decreased under EM by more than rounding: if columns are far "
        "from 0 relative to their range, use standardize=True or subtract a constant; "
        "otherwise this is a bug in the update, please report it with the data"
    ),
    Result.NONFINITE: (
        "the objective or its gradient became infinite or NaN: use standardize=True "
        "if features have very different scales, or set a prior (the likelihood may "
        "have no maximum)"
    ),
}


class Fit(NamedTuple):
    """The parameters of a fitted model, and the record of the fit.

    Attributes
    ----------
    params : NamedTuple of arrays
        The ``Params`` of the model.
    objective : array of shape ()
        Log joint density (log posterior up to its constant) at ``params``.
    result : array of shape (), int
        A ``Result`` code.
    n_steps, n_evaluations : array of shape (), int
        Number of steps of the solver. Number of evaluations of the EM step, or of value
        and gradient.
    trace : array of shape (max_steps,)
        Objective after each step, NaN after the last step.

    Examples
    --------
    >>> fit = Fit.closed((np.eye(2),), objective=-3.5)
    >>> Result(int(fit.result)).name, int(fit.n_steps), float(fit.objective)
    ('CONVERGED', 0, -3.5)
    """

    params: PyTree
    objective: Float[Array, ""]
    result: Int[Array, ""]
    n_steps: Int[Array, ""]
    n_evaluations: Int[Array, ""]
    trace: Float[Array, "t"]

    @classmethod
    def closed(cls, params: PyTree, objective: ArrayLike) -> "Fit":
        """Return a closed-form fit; CONVERGED if the objective is finite."""
        value = np.asarray(objective)
        code = Result.CONVERGED if np.isfinite(value) else Result.NONFINITE
        result, steps, evaluations = (np.asarray(int(n)) for n in (code, 0, 1))
        return cls(params, value, result, steps, evaluations, np.empty(0, value.dtype))
