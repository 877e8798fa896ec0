"""Derivations and fits of the learners: one folder each, and shared modules.

Shared
    ``solvers``    EM with its stop rule, L-BFGS, and ``Fit``, the result of every fit;
    ``sampling``   NUTS, variational guides and Laplace's approximation of any target;
    ``rotations``  Gaussian at a mode of a linear map, without rotations of the map;
    ``choose``     choice of a setting by the losses of held-out points;
    ``mixture``    normal mixture, used by the two-stage model and Gaussian classes;
Learners
    ``lca``, ``effects`` (hierarchical LCA and LCA with point effects), ``two_stage``,
    ``gaussian_classes`` (also GLML), ``dca_gm``, ``eig_dml``, ``gdm``, ``mds`` and
    ``triplet_comparisons`` are folders, ``lda`` (also RCA) and ``pair_lda`` files.

Files have the same names in every folder: ``statistics`` (sums of the data),
``likelihood``, ``start``, ``em``, ``fit`` (the entry: data in, ``Fit`` out),
``laplace``, ``target`` (the log density for samplers), ``draws``, ``choice``. The
``__init__`` of a folder lists its symbols and the equations of each
file. Equations are numbered within a file, Eq. (n). An equation of another file is
cited as "Eq. (n) of ``folder.file``". "Seed 00x" is a source of the package: the papers
on LCA (000), DCA-GM (001), normal mixtures (002) and GLML (004), and lecture notes on
metric learning (003). An "erratum" is a numbered error in one of these sources.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
