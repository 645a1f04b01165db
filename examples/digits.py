"""Are two classifiers' probabilities right? Cross-validated predictions on the digits.

python examples/digits.py reliability.png
"""

import sys

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB

import riskalign as ra


def main(path: str) -> None:
    """Print the calibration errors of a forest and of naive Bayes, and draw their reliability."""
    X, y = load_digits(return_X_y=True)
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.6), layout="constrained")
    models = {"random forest": RandomForestClassifier(random_state=0), "naive Bayes": GaussianNB()}
    for ax, (name, model) in zip(axes, models.items(), strict=True):
        f = cross_val_predict(model, X, y, cv=5, method="predict_proba")
        print(f"--- {name}, accuracy {(f.argmax(axis=1) == y).mean():.3f}")
        print(ra.calibration_error(y, f, estimator="debiased", confidence=0.95), "\n")
        ra.plots.reliability_diagram(y, f, notion="top-label", ax=ax)
        ax.set_title(name)
    figure.savefig(path, dpi=110)
    print(f"wrote {path}")


if __name__ == "__main__":
    main(sys.argv[1])
