"""Those of scikit-learn's checks that depend on the kind and the shape of the data.

A learner that chooses its prior by folds spends most of its time there: all checks are
run with a given prior, and these with the choice as well. ``benchmarks/
check_estimators.py`` runs all on every learner's defaults.
"""

from sklearn.utils.estimator_checks import (
    check_classifiers_classes,
    check_estimators_dtypes,
    check_f_contiguous_array_estimator,
    check_fit2d_1feature,
    check_fit2d_1sample,
    check_fit_idempotent,
    check_readonly_memmap_input,
    check_transformer_data_not_an_array,
)

OF_TRANSFORMERS = (
    check_estimators_dtypes,
    check_f_contiguous_array_estimator,
    check_fit2d_1feature,
    check_fit2d_1sample,
    check_fit_idempotent,
    check_readonly_memmap_input,
    check_transformer_data_not_an_array,
)
OF_CLASSIFIERS = (*OF_TRANSFORMERS, check_classifiers_classes)
