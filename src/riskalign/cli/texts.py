"""What `--help` says below the options of each command."""

from __future__ import annotations

EXIT_CODES = """\
exit codes:
  0    the question was answered
  1    a gate failed: --fail-above, --worse-than or --fail-on-alarm
  2    bad input or usage
  3    an internal error, a defect of riskalign; --debug shows where
  130  interrupted by Ctrl-C
"""

TOP = f"""\
examples:
  riskalign demo                               see what a report looks like
  riskalign report predictions.csv             the calibration error, in a table
  riskalign report predictions.csv --html report.html
  riskalign compare model-a.npz model-b.npz    which is calibrated better?
  riskalign plot predictions.parquet -o reliability.png
  riskalign calibrate predictions.csv -o recalibrated.csv

{EXIT_CODES}"""

FILES = """\
files:
  .csv .parquet .jsonl  a column of labels (y, y_true, label, target), and
                        either one of probabilities (p, prob, score), several
                        (p_<class>, prob_<class>, score_<class>; 0, 1, ...; or
                        a list), logits (logit_<class>), or confidence and
                        pred; or confidence and correct alone. For other names,
                        --label NAME and --probs NAME,NAME or 'prefix*'
  .jsonl                also {class: score}, lists of {"label", "score"} as
                        pipelines of Hugging Face return them, and samples of
                        lm-evaluation-harness (--log_samples)
  .npz                  keys labels with probs, logits, or confidence and pred
  .npy                  predictions alone, with --labels FILE
  --labels              any of these, .txt (one label per line) or .json (a
                        list)
"""

REPORT = f"""\
examples:
  riskalign report predictions.csv
  riskalign report predictions.csv --label truth --probs 'model_*'
  riskalign report logits.npy --labels labels.npy --logits --notion top-label
  riskalign report predictions.parquet --html report.html --json report.json
  riskalign report predictions.csv --fast        no p-value, no advice
  riskalign report predictions.csv --fail-above 3pts
             in CI: exit code 1 when the lower 95% limit of a typical gap
             exceeds 3 percentage points
  riskalign report new.csv --worse-than old.csv
             ... or when the model is calibrated worse than another one
  riskalign report predictions.csv --markdown "$GITHUB_STEP_SUMMARY"
  riskalign report predictions.csv --estimator plugin    the paper's numbers

{FILES}
{EXIT_CODES}"""

COMPARE = f"""\
example:
  riskalign compare before.csv after.csv --notion top-label

The files hold predictions for the same rows, in the same order.

{FILES}
{EXIT_CODES}"""

PLOT = f"""\
examples:
  riskalign plot predictions.csv -o reliability.png
  riskalign plot predictions.csv -o reliability.pdf --notion classwise
  riskalign plot predictions.csv -o cat.svg --class cat
  riskalign plot predictions.csv -o confident.png --scale logit
  riskalign plot predictions.csv -o bins.png --bins 15 --band simultaneous

By default two classes are drawn as the curve of the second, more as that of the
predicted class. The class-wise picture has a diagram for each of up to twelve
classes, the most frequent.

{FILES}
{EXIT_CODES}"""

CALIBRATE = f"""\
examples:
  riskalign calibrate predictions.csv -o recalibrated.csv
  riskalign calibrate test.parquet -o recalibrated.parquet --fit validation.parquet
  riskalign calibrate validation.npz --method temperature --save calibrator.json
  riskalign calibrate new.npz -o recalibrated.npz --load calibrator.json

By default the calibrator learns from the file itself: each row is recalibrated
by a map that was learnt from the rows of other folds. The output has the format
of the file, and keeps everything in it that is not a prediction.

{FILES}
{EXIT_CODES}"""

DEMO = f"""\
example:
  riskalign demo --directory /tmp

Writes riskalign-demo.csv, 5,000 made-up predictions of an over-confident model
of four classes, and riskalign-demo.html, the report of that file.

{EXIT_CODES}"""

DEBUG = "show the traceback of an error"
