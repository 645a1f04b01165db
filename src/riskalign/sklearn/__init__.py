"""For scikit-learn: calibrators, and a scorer for cross-validation and grid search.

Nothing else in the package needs scikit-learn; `riskalign.KernelCalibrator` and its neighbours are
imported when they are first used.
"""

from riskalign.sklearn.calibrator import KernelCalibrator
from riskalign.sklearn.classifier import KernelCalibratedClassifierCV
from riskalign.sklearn.scorer import CalibrationScorer, calibration_scorer

__all__ = [
    "CalibrationScorer",
    "KernelCalibratedClassifierCV",
    "KernelCalibrator",
    "calibration_scorer",
]
