"""Scikit-learn estimators: validate, call the inference, store; no mathematics.

``lca``, ``two_stage``, ``point_effects``, ``triplet_comparisons``, ``gdm``
                           a folder each: ``estimator`` and its parts.
``gaussian_classes``, ``glml``, ``dca_gm``, ``lda`` (also RCA), ``pair_lda``,
``eig_dml``, ``mds``, ``hierarchical_lca``
                           a file each.
``_mahalanobis``           methods of every learned Mahalanobis metric.
``_pair_learner``          base of learners from close and far pairs.
``_labelled``              labelled points checked; outcomes reported.
``_streamed``              fits to a source: what is checked and set before one.
``_settings``              settings of constructors, checked by their types in ``fit``.
"""
