"""Hierarchical LCA in closed form; the derivation is ``inference.effects``."""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
