"""Maps from predictions to recalibrated predictions: fitted, stored, and what they would gain."""
