"""The module of the page, trained by Lightning itself."""

import re
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from riskalign.torch import CalibrationError, CalibrationLoss

PAGE = Path(__file__).parents[2] / "docs" / "pytorch.md"


def test_lightning_trains_and_logs_the_module_of_the_page(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own
        lightning = pytest.importorskip("lightning")
    (code,) = re.findall(r"^``` python\n(class Classifier.*?)^```", PAGE.read_text(), re.S | re.M)
    torch.manual_seed(0)
    names = {"L": lightning, "torch": torch, "nn": nn, "make_model": lambda: nn.Linear(5, 10)}
    names |= {"CalibrationLoss": CalibrationLoss, "CalibrationError": CalibrationError}
    exec(code, names)  # our own page
    module = names["Classifier"]()
    x = torch.randn(600, 5)
    y = torch.multinomial(torch.cat([x, -x], 1).softmax(1), 1)[:, 0]
    rows = TensorDataset(x, y)
    trainer_options = {
        "accelerator": "cpu", "logger": False, "enable_progress_bar": False,
        "enable_model_summary": False, "default_root_dir": tmp_path, "num_sanity_val_steps": 0,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = lightning.Trainer(max_epochs=2, **trainer_options)
        trainer.fit(module, DataLoader(rows, batch_size=128), DataLoader(rows, batch_size=128))
    assert module.calibration.steps == 10
    assert int(module.error.n_rows) == 0  # reset after every epoch
    alone = CalibrationError("top-label", 10, from_logits=True)
    with torch.no_grad():
        alone.update(module.model(x), y)
    assert torch.equal(trainer.callback_metrics["calibration error"], alone.compute())
    trainer.save_checkpoint(tmp_path / "kept.ckpt")
    stored = torch.load(tmp_path / "kept.ckpt", weights_only=True)["state_dict"]
    again = names["Classifier"]()
    again.load_state_dict(stored)
    assert again.calibration.steps == 10
    assert torch.equal(again.calibration.bandwidth, module.calibration.bandwidth)
