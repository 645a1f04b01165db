"""Models by name, with their weights read without running anything."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from experiments.predict.chunks import Scores

FAMILIES = ("timm", "torchvision")
_DECLARED: list[Any] = []
"""Declarations of operators, which end with the object that made them."""


def import_torchvision() -> Any:
    """The module torchvision, also beside a build of torch that lacks its operators.

    The package index has torchvision built for CUDA alone. Beside torch for the processor its
    compiled operators do not load, and its import fails at two that it describes: they are
    declared here. They detect objects; classifiers need none of them.
    """
    import torch

    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        _forget("torchvision")
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _DECLARED.append(library)
        import torchvision
    return torchvision


def _forget(package: str) -> None:
    import sys

    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        del sys.modules[name]


def image_model(
    name: str, classes: int | None = None, weights: Path | None = None, pretrained: bool = False
) -> Any:
    """An image model, such as "timm:vit_small_patch16_224" or "torchvision:resnet50".

    Without weights, and not `pretrained` (which downloads them), its weights are random.
    """
    family, _, model_name = name.partition(":")
    if family not in FAMILIES or not model_name:
        raise ValueError(f"`model` must be timm:NAME or torchvision:NAME; found {name!r}.")
    torchvision = import_torchvision()
    if family == "timm":
        import timm

        options = {} if classes is None else {"num_classes": classes}
        model = timm.create_model(model_name, pretrained=pretrained, **options)
    else:
        options = {} if classes is None else {"num_classes": classes}
        model = torchvision.models.get_model(
            model_name, weights="DEFAULT" if pretrained else None, **options
        )
    if weights is not None:
        model.load_state_dict(state(weights))
    return model.eval()


def state(path: Path) -> dict[str, Any]:
    """Tensors of a file: safetensors, or torch's own format without pickled objects."""
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    import torch

    found = torch.load(path, map_location="cpu", weights_only=True)
    for key in ("state_dict", "model"):  # as training scripts store them
        if isinstance(found.get(key), dict):
            return found[key]
    return found


def transform_of(
    name: str,
    model: Any,
    size: int | None = None,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
) -> Callable[[Any], Any]:
    """What the model's makers do to a picture, with size and normalisation replaced if given."""
    import_torchvision()
    from timm.data import create_transform, resolve_model_data_config

    family, _, model_name = name.partition(":")
    config = resolve_model_data_config(model) if family == "timm" else _preset(model_name)
    if size is not None:
        config |= {"input_size": (3, size, size), "crop_pct": 1.0}
    config |= {key: v for key, v in (("mean", mean), ("std", std)) if v is not None}
    return create_transform(**config, is_training=False)


def _preset(name: str) -> dict[str, Any]:
    """The preprocessing of torchvision's own weights, in timm's words."""
    preset = import_torchvision().models.get_model_weights(name).DEFAULT.transforms()
    crop = preset.crop_size[0]
    return {
        "input_size": (3, crop, crop),
        "crop_pct": crop / preset.resize_size[0],
        "mean": tuple(preset.mean),
        "std": tuple(preset.std),
        "interpolation": preset.interpolation.value,
    }


def image_scores(model: Any) -> Callable[[Any], Scores]:
    """From a batch of pictures to logits."""
    import torch

    def score(batch: Any) -> Scores:
        with torch.inference_mode():
            return np.asarray(model(batch).float().numpy(), dtype=np.float32)

    return score


def text_scores(folder: str, length: int = 512) -> Callable[[list[str]], Scores]:
    """From a batch of texts to logits, by a classifier in a folder (or a hub's name)."""
    import torch

    if find_spec("torchvision") is not None:  # transformers imports it where it is installed
        import_torchvision()
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, use_safetensors=True).eval()

    def score(batch: list[str]) -> Scores:
        inputs = tokenizer(
            batch, padding=True, truncation=True, max_length=length, return_tensors="pt"
        )
        with torch.inference_mode():
            return np.asarray(model(**inputs).logits.float().numpy(), dtype=np.float32)

    return score
