"""Generate labeled data with a known Bayes error.

| name     | d  | classes | Bayes error | model                                     |
|----------|----|---------|-------------|-------------------------------------------|
| waveform | 21 | 3       | 14%         | mixes of two of three triangles and noise |
| twonorm  | 20 | 2       | 2.28%       | N(±a·1, I), a = 2/√20: exactly Φ(-2)      |
| ringnorm | 20 | 2       | about 1.5%  | N(0, 4I) against N(a·1, I), a = 1/√20     |

References
----------
Breiman, Friedman, Olshen and Stone, "Classification and Regression Trees", 1984
(waveform); Breiman, "Bias, variance, and arcing classifiers", 1996 (the other two).
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

type LabeledSample = tuple[Float[np.ndarray, "n d"], Int[np.ndarray, "n"]]

_D = 20


def waveform(n: int, seed: int) -> LabeledSample:
    """Draw n points u·h + (1-u)·h' + N(0, I): h, h' are triangles, u is uniform."""
    rng = np.random.default_rng(seed)
    t = np.arange(1, 22)
    triangles = np.maximum(6 - np.abs(t - np.array([[11], [15], [7]])), 0).astype(float)
    first, second = triangles[[0, 0, 1]], triangles[[1, 2, 2]]
    y = rng.integers(3, size=n)
    u = rng.random((n, 1))
    mean = u * first[y] + (1 - u) * second[y]
    return mean + rng.standard_normal((n, 21)), y


def twonorm(n: int, seed: int) -> LabeledSample:
    """Draw n points from N(a·1, I) or N(-a·1, I) with a = 2/√20."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    mean = (1 - 2 * y)[:, None] * 2 / np.sqrt(_D)
    return mean + rng.standard_normal((n, _D)), y


def ringnorm(n: int, seed: int) -> LabeledSample:
    """Draw n points from N(0, 4I) or N(a·1, I) with a = 1/√20."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    noise = rng.standard_normal((n, _D))
    return np.where(y[:, None] == 0, 2 * noise, 1 / np.sqrt(_D) + noise), y


GENERATORS: dict[str, Callable[[int, int], LabeledSample]] = {
    "ringnorm": ringnorm,
    "twonorm": twonorm,
    "waveform": waveform,
}
