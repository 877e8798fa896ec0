"""Draws of any model: where each step is.

Symbols. A target is a log density of unconstrained arrays u with the quantities to
report of it; a start is a Gaussian, its mean and a root of its covariance.

In reading order:

``target``       ``Target``, ``Posterior``, ``Draws``; a NumPyro model as a target.
``laplace``      ``Laplace``: independent draws of the Gaussian at the mode, with k-hat.
``svi``          ``SVI``: independent draws of a variational guide, with k-hat.
``kernel``       the No-U-Turn sampler as blocks of one compiled kernel.
``checkpoint``   blocks on disk, and how a run is resumed.
``nuts``         ``NUTS``: several chains, block after block.
``sample``       ``sample``: one function for every NumPyro model and target.
``predictive``   draws of the prior, predictions and log likelihoods of a NumPyro model.
``datatree``     draws as an ArviZ DataTree with data and provenance.
``summary``      mean, sd, Monte Carlo error, R-hat and effective size by entry.
``metrics``      draws as metrics, one a draw.
``units``        whether stored log likelihoods are of units that could be left out.
``diagnostics``  what is wrong with draws, each finding with what helps.
``warnings``     the same, as warnings.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
