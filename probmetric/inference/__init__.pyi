from . import (
    dca_gm as dca_gm,
    eig_dml as eig_dml,
    gaussian_classes as gaussian_classes,
    hierarchical_lca as hierarchical_lca,
    lca as lca,
    lda as lda,
    mds as mds,
    mixture as mixture,
    pair_lda as pair_lda,
    sampling as sampling,
    solvers as solvers,
    two_stage as two_stage,
)
