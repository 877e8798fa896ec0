"""The derivations: a folder for each learner, and what all learners share.

Shared
    ``solvers``    EM with its stop rule, L-BFGS, and the outcome ``Fit`` of every fit.
    ``sampling``   NUTS, variational guides and Laplace's approximation of any target.
    ``rotations``  a Gaussian at a mode of a map, without the map's rotations.
    ``reduce``     sums over a source of rows, the seam between learners and engine;
    ``moments``    columns and classes of a source, in one pass.
    ``choose``     a setting by the losses of held-out points;
    ``mixture``    the normal mixture that the two-stage model and Gaussian classes fit;
    ``effects``    LCA with a random effect: ``hierarchical_lca``, ``point_effects``.
Learners
    ``lca``, ``hierarchical_lca``, ``point_effects``, ``two_stage``,
    ``gaussian_classes`` (also GLML), ``dca_gm``, ``eig_dml``, ``gdm``, ``mds`` and
    ``triplet_comparisons`` are folders, ``lda`` (also RCA) and ``pair_lda`` files.

A file has the same name in every folder: ``statistics`` (sums of the data),
``likelihood``, ``start``, ``em``, ``fit`` (the entry: data in, ``Fit`` out),
``laplace``, ``bootstrap``, ``target`` (the log density for samplers), ``draws``,
``choice``. Each folder's ``__init__`` gives its symbols and which equations are where.
Equations are numbered within a file, Eq. (n); those of another file are cited as
"Eq. (n) of ``room.file``", those of a paper as "Eq. (n) of seed 00x".
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
