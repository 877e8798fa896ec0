from . import (
    dca_gm as dca_gm,
    distributions as distributions,
    gaussian_classes as gaussian_classes,
    lca as lca,
    lda as lda,
    two_stage as two_stage,
)
