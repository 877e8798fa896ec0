"""Scikit-learn estimators: they check input, call ``inference`` and store results.

``lca``, ``two_stage``, ``point_effects``, ``triplet_comparisons``, ``gdm``
                           one folder each, with the class in ``estimator``.
``gaussian_classes``, ``glml``, ``dca_gm``, ``lda`` (also RCA), ``pair_lda``,
``eig_dml``, ``mds``, ``hierarchical_lca``, ``stacking``
                           one file each.
``_learner``               base of learners with a posterior: draws, metrics of draws.
``_same``                  P(same) of pairs.
``_effect``                base of ``point_effects`` and ``hierarchical_lca``.
``_mahalanobis``           methods of all learners of a Mahalanobis metric.
``_pair_learner``          base of learners of close and far pairs.
``_labeled``              checks labeled points and pairs; reports outcomes.
``_settings``              settings of constructors, checked in ``fit``.
``_docstrings``            descriptions of shared parameters.
"""
