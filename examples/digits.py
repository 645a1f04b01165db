"""Are two classifiers' probabilities right? Cross-validated predictions on the digits."""

from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB

import riskalign as ra


def main() -> None:
    """Print the class-wise calibration error of a forest and of naive Bayes."""
    X, y = load_digits(return_X_y=True)
    for model in (RandomForestClassifier(random_state=0), GaussianNB()):
        f = cross_val_predict(model, X, y, cv=5, method="predict_proba")
        print(f"--- {type(model).__name__}, accuracy {(f.argmax(axis=1) == y).mean():.3f}")
        print(ra.calibration_error(y, f, notion="classwise", loss="l2"), "\n")


if __name__ == "__main__":
    main()
