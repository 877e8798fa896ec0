"""Draws of any model: NUTS, Laplace and SVI, run in blocks, with checkpoints and warnings."""
