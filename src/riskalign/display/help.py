"""What the numbers mean, in a sentence or two each: tooltips of the page and of notebooks."""

TYPICAL = (
    "The root mean square difference between the predicted probability and the true one. It is the "
    "square root of the debiased squared error, so chance does not enlarge it."
)
SIDE = (
    "The part of the mean absolute difference by probabilities above the true ones (too high), or "
    "below them (too low)."
)
INTERVAL = "Range of true values compatible with the data."
DIRECTION = (
    "Mean predicted probability minus observed frequency; positive = over-confident. A direction "
    "is named only if the interval excludes 0."
)
RISK = "Mean loss of the predictions as observed: calibration error plus refinement."
REFINEMENT = "Error that would remain after perfect recalibration. Only a better model lowers it."
RATIO = (
    "Mean predicted probability over the observed frequency: above 1 the probability is too high. "
    "This is said only if the interval excludes 1."
)
SLOPE = (
    "Logistic recalibration, log-odds(R) = intercept + slope * log-odds(f). A slope below 1 says "
    "that predictions are too extreme, one above 1 that they are too timid."
)
P_VALUE = (
    "Probability of a discrepancy at least this large if the model were perfectly calibrated, by "
    "simulation: labels are drawn from the predictions again and again."
)
ECE = (
    "Expected calibration error: mean |observed - predicted| over 15 bins of equal width. Chance "
    "alone enlarges it, so a calibrated model shows more than 0: by a normal approximation, the "
    "sum over bins of sqrt(2 / pi) times the standard deviation of the bin's mean label."
)
ACCURACY = "Share of rows whose most probable class is right."
CONFIDENCE = "Mean probability of the most probable class."
LOG_LOSS = "Mean of -log of the probability that the label had."
BRIER = "Mean squared difference between the probabilities and the outcome."
SHARE = "The class's error over the total; a negative estimate counts as 0."
EVIDENCE = (
    "Classes are ordered by evidence, not by size. A class is called too high, too low, too "
    "extreme or too timid only if that is more than chance, corrected for the number of classes."
)
CLASS_GAP = (
    "Mean predicted probability of the class minus its observed frequency, in percentage points; "
    "above 0 the probability is too high on average."
)
