from . import (
    dca_gm as dca_gm,
    distributions as distributions,
    gaussian_classes as gaussian_classes,
    gdm as gdm,
    hierarchical_lca as hierarchical_lca,
    lca as lca,
    lda as lda,
    point_effects as point_effects,
    triplet_comparisons as triplet_comparisons,
    two_stage as two_stage,
)
