"""Samplers for any model, and the storage and diagnosis of their draws.

Symbols. A target is a log density of unconstrained arrays u, with the quantities to
report. A start is a Gaussian: its mean and a square root of its covariance.

In reading order:

``target``       ``Target``, ``Posterior``, ``Draws``; a NumPyro model as a target.
``laplace``      ``Laplace``: independent draws of the Gaussian at the mode, with k-hat.
``svi``          ``SVI``: independent draws of a variational guide, with k-hat.
``kernel``       the No-U-Turn sampler as blocks of one compiled kernel.
``checkpoint``   blocks on disk, with which a run can be resumed.
``nuts``         ``NUTS``: several chains, run in blocks.
``sample``       ``sample``: one function for every NumPyro model and target.
``predictive``   draws of the prior, predictions and log likelihoods of a NumPyro model.
``datatree``     draws as an ArviZ DataTree with data and provenance.
``summary``      names of entries, and chains that are copies.
``metrics``      one metric per draw.
``units``        whether log likelihoods are stored per observation.
``diagnostics``  problems with draws, and their remedies.
``warnings``     the problems as Python warnings.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
