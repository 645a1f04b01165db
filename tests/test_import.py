"""Importing the package is cheap, and brings the public names."""

import subprocess
import sys

import riskalign as ra

HEAVY = (
    "matplotlib",
    "torch",
    "pandas",
    "polars",
    "sklearn",
    "tqdm",
    "jax",
    "tensorflow",
    "pyarrow",
    "dask",
    "pyspark",
)


def loaded_by(code):
    script = f"import sys\n{code}\nprint(*(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_importing_loads_nothing_heavy():
    assert loaded_by("import riskalign") == []


def test_estimating_loads_nothing_heavy():
    code = (
        "import riskalign as ra\n"
        "data = ra.datasets.temperature(50, 3)\n"
        "str(ra.calibration_error(data.y_true, data.y_prob, bandwidth=0.1))"
    )
    assert loaded_by(code) == []


def test_the_check_sees_what_is_loaded():
    assert "pandas" in loaded_by("import riskalign, pandas")


def test_public_names_exist():
    assert set(ra.__all__) >= {
        "BandwidthSearch",
        "CalibrationResult",
        "ProperLoss",
        "calibration_error",
        "datasets",
        "reliability_curve",
        "select_bandwidth",
    }
    for name in ra.__all__:
        assert getattr(ra, name) is not None
    assert ra.__version__.count(".") == 2


def test_the_version_is_told_without_the_package():
    code = (
        "import sys\n"
        "sys.argv = ['riskalign', '--version']\n"
        "from riskalign_command import main\n"
        "assert main() == 0\n"
        "print('numpy' in sys.modules, 'riskalign' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [ra.__version__, "False", "False"]


def test_splines_are_loaded_when_they_are_needed():
    code = "import sys, riskalign\nprint('scipy.interpolate' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
