"""Scikit-learn estimators: validate, call the inference, store; no mathematics.

``lca``, ``two_stage``, ``point_effects``, ``triplet_comparisons``, ``gdm``
                           a folder each: ``estimator`` and its parts.
``gaussian_classes``, ``glml``, ``dca_gm``, ``lda`` (also RCA), ``pair_lda``,
``eig_dml``, ``mds``, ``hierarchical_lca``
                           a file each.
``_learner``               base of learners with a posterior: draws and their metrics.
``_effect``                base of ``point_effects`` and ``hierarchical_lca``.
``_mahalanobis``           methods of all learners of a Mahalanobis metric.
``_pair_learner``          base of learners of close and far pairs.
``_labeled``              checks labeled points and pairs; reports outcomes.
``_settings``              settings of constructors, checked in ``fit``.
``_docstrings``            descriptions of shared parameters.
"""
