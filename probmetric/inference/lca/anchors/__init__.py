"""The default fit of LCA from a sample of anchors.

``rows``    the rows of a fit, and the anchors drawn from them (1).
``pairs``   the exact nearest rows of each anchor among all rows.
``fit``     the fit, with its standard error (1).
"""
