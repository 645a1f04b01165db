"""Kept for its import path: `riskalign.calibration_error_of_batches`."""

from riskalign.sketch import calibration_error_of_batches

__all__ = ["calibration_error_of_batches"]
