"""Prediction files from models: python -m experiments.predict images, texts or training."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from experiments.predict.chunks import predict


def images(options: argparse.Namespace) -> None:
    """Pictures through timm or torchvision."""
    from experiments.predict.images import ImageArrays, ImageFolder
    from experiments.predict.models import image_model, image_scores, transform_of

    model = image_model(options.model, options.classes, options.weights, options.pretrained)
    transform = transform_of(options.model, model, options.size, options.mean, options.std)
    if options.data[0].is_dir():
        source = ImageFolder.of(options.data[0], transform)
    else:
        source = ImageArrays.of(options.data, transform)
    identity = {
        name: str(getattr(options, name))
        for name in ("model", "weights", "pretrained", "data", "size", "mean", "std")
    }
    predict(source, image_scores(model), options.out, identity, options.batch, options.chunk)


def texts(options: argparse.Namespace) -> None:
    """Texts through transformers."""
    from experiments.predict.models import text_scores
    from experiments.predict.texts import Texts

    source = Texts.of(options.data, options.text, options.label, options.classes)
    identity = {name: str(getattr(options, name)) for name in ("model", "data", "text", "length")}
    score = text_scores(options.model, options.length)
    predict(source, score, options.out, identity, options.batch, options.chunk)


def training(options: argparse.Namespace) -> None:
    """A small network trained here, stopped early and late."""
    from experiments.predict.training import run

    for path in run(options.out).values():
        print(path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and predict."""
    parser = argparse.ArgumentParser(prog="python -m experiments.predict", description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    picture = kinds.add_parser("images", help="timm and torchvision models")
    picture.set_defaults(run=images)
    picture.add_argument("--model", required=True, help="timm:NAME or torchvision:NAME")
    picture.add_argument("--weights", type=Path, help=".safetensors, or torch's own format")
    picture.add_argument("--pretrained", action="store_true", help="download published weights")
    picture.add_argument("--classes", type=int, help="number of classes, if not the model's own")
    picture.add_argument(
        "--data", type=Path, nargs="+", required=True,
        help="a folder with a folder a class; or .npz (images, labels); or CIFAR's .bin files",
    )  # fmt: skip
    picture.add_argument("--size", type=int, help="width and height the model takes")
    picture.add_argument("--mean", type=float, nargs=3)
    picture.add_argument("--std", type=float, nargs=3)
    text = kinds.add_parser("texts", help="Hugging Face text classifiers")
    text.set_defaults(run=texts)
    text.add_argument("--model", required=True, help="folder of the model, or its name on the hub")
    text.add_argument("--data", type=Path, required=True, help=".csv, .tsv, .jsonl or .parquet")
    text.add_argument("--text", default="text", help="column of texts")
    text.add_argument("--label", default="label", help="column of labels")
    text.add_argument("--classes", nargs="+", help="labels in the order of the model's outputs")
    text.add_argument("--length", type=int, default=512, help="most tokens of a text")
    trained = kinds.add_parser("training", help="a small network, trained here")
    trained.set_defaults(run=training)
    trained.add_argument("--out", type=Path, required=True, help="the folder to write to")
    for kind in (picture, text):
        kind.add_argument("--out", type=Path, required=True, help="the .npz file to write")
        kind.add_argument("--batch", type=int, default=64, help="samples at once in the model")
        kind.add_argument("--chunk", type=int, default=2_048, help="samples written at once")
    options = parser.parse_args(arguments)
    options.run(options)


if __name__ == "__main__":
    main()
