"""The generalised dissimilarity model.

``estimator``   ``GDM``: fit, draws, jackknife, curves.
"""
