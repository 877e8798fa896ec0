"""The generalized dissimilarity model.

``estimator``   ``GDM``: fit, draws, jackknife, curves.
"""
