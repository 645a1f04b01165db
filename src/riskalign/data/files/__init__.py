"""Predictions in files: tables and arrays, their columns found by name."""

from riskalign.data.files.predictions import PredictionFile, Predictions, open_predictions

__all__ = ["PredictionFile", "Predictions", "open_predictions"]
