"""What calibration errors say about a model that is perfectly calibrated.

python examples/perfect.py

Labels are drawn from the predictions of ten classes, so every true calibration error is 0. The
table shows means over 20 data sets with their standard errors, for the top label.
"""

import numpy as np

import riskalign as ra

REPETITIONS = 20


def main() -> None:
    """Print the 15-bin ECE and the default error, with how often its interval holds 0."""
    print("rows    ECE, 15 bins (points)    riskalign, squared error    interval holds 0")
    for n in (200, 1_000, 5_000):
        ece, error, holds = [], [], 0
        for seed in range(REPETITIONS):
            data = ra.datasets.calibrated(n, 10, seed=seed)
            y, f = data.y_true, data.y_prob
            bins = ra.EqualWidthBins(15, norm="l1")
            ece.append(100 * ra.calibration_error(y, f, notion="top-label", method=bins).value)
            result = ra.calibration_error(y, f, notion="top-label", confidence=0.95)
            error.append(result.value)
            holds += result.interval[0] == 0
        spread = REPETITIONS**0.5
        print(
            f"{n:5,d}   {np.mean(ece):5.2f} ± {np.std(ece) / spread:.2f}"
            f"             {np.mean(error):+.5f} ± {np.std(error) / spread:.5f}"
            f"          {holds} of {REPETITIONS}"
        )


if __name__ == "__main__":
    main()
