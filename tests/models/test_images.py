import numpy as np
import pytest
import torch
from experiments.predict.__main__ import main
from experiments.predict.images import ImageArrays, ImageFolder
from experiments.predict.models import image_model, image_scores, state, transform_of
from PIL import Image
from safetensors.torch import save_file

import riskalign as ra
from riskalign.data.files import open_predictions

MODEL = "timm:test_resnet"


@pytest.fixture
def folder(tmp_path):
    """Two classes of five small pictures, in an order that is not the classes'."""
    generator = np.random.default_rng(0)
    for name in ("n02", "n01"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(5):
            pixels = generator.integers(0, 256, (40, 52, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / name / f"{number}.png")
    return tmp_path / "images"


@pytest.fixture
def weights(tmp_path):
    torch.manual_seed(0)
    path = tmp_path / "weights.safetensors"
    save_file(image_model(MODEL, classes=3).state_dict(), path)
    return path


def read(path):
    found = open_predictions(path)
    assert found.from_logits
    return found.read()


def test_folder_to_file_whose_error_is_estimated(folder, weights, tmp_path):
    out = tmp_path / "predictions.npz"
    options = f"--classes 3 --weights {weights} --data {folder} --out {out} --batch 3 --chunk 4"
    main(["images", "--model", MODEL, *options.split()])
    found = read(out)
    assert found.labels.tolist() == [0] * 5 + [1] * 5  # sorted names number the classes
    assert found.scores.shape == (10, 3)
    assert not out.with_suffix(".parts").exists()
    result = ra.calibration_error(
        found.labels,
        found.scores,
        from_logits=True,
        notion="top-label",
        estimator="plugin",
        bandwidth=0.1,
    )
    assert np.isfinite(result.value)


def test_logits_are_the_models_own(folder, weights, tmp_path):
    model = image_model(MODEL, classes=3, weights=weights)
    source = ImageFolder.of(folder, transform_of(MODEL, model))
    out = tmp_path / "predictions.npz"
    options = f"--classes 3 --weights {weights} --data {folder} --out {out} --batch 4"
    main(["images", "--model", MODEL, *options.split()])
    with torch.inference_mode():
        expected = model(source.batch(range(10))).numpy()
    np.testing.assert_allclose(read(out).scores, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["timm:test_vit", "torchvision:resnet18"])
def test_real_classes_with_random_weights(name):
    torch.manual_seed(0)
    model = image_model(name, classes=4)
    transform = transform_of(name, model, size=64 if "resnet" in name else None)
    images = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    source = ImageArrays(images, np.array([0, 3], dtype=np.int32), transform)
    logits = image_scores(model)(source.batch(range(2)))
    assert logits.shape == (2, 4)
    assert np.isfinite(logits).all()


def test_torchvision_transform_is_its_presets():
    model = image_model("torchvision:resnet18", classes=2)
    from experiments.predict.models import import_torchvision

    preset = import_torchvision().models.get_model_weights("resnet18").DEFAULT.transforms()
    picture = Image.fromarray(
        np.random.default_rng(0).integers(0, 256, (300, 280, 3), dtype=np.uint8)
    )
    ours = transform_of("torchvision:resnet18", model)(picture)
    np.testing.assert_allclose(ours, preset(picture), atol=1e-5)


def test_cifar_binary_versions(tmp_path):
    generator = np.random.default_rng(0)
    pictures = generator.integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
    planes = pictures.transpose(0, 3, 1, 2).reshape(6, -1)
    labels = np.arange(6, dtype=np.uint8)[:, None]
    np.hstack([labels, planes]).tofile(tmp_path / "data_batch_1.bin")
    np.hstack([labels // 2, labels + 90, planes]).tofile(tmp_path / "test.bin")
    ten = ImageArrays.of([tmp_path / "data_batch_1.bin"], np.asarray)
    hundred = ImageArrays.of([tmp_path / "test.bin"], np.asarray)
    np.testing.assert_array_equal(ten.images, pictures)
    np.testing.assert_array_equal(hundred.images, pictures)
    assert ten.labels.tolist() == [0, 1, 2, 3, 4, 5]
    assert hundred.labels.tolist() == [90, 91, 92, 93, 94, 95]  # the fine labels
    np.savez(tmp_path / "more.npz", images=pictures[:2, ..., 0], labels=[7, 8])
    both = ImageArrays.of([tmp_path / "data_batch_1.bin", tmp_path / "more.npz"], np.asarray)
    assert both.images.shape == (8, 32, 32, 3)
    assert both.labels.tolist() == [0, 1, 2, 3, 4, 5, 7, 8]


def test_what_cannot_be_read_is_said(tmp_path, folder, weights):
    (tmp_path / "data_batch_1").write_bytes(b"\x80\x04K\x01.")  # a pickle
    with pytest.raises(ValueError, match="a pickle may run code"):
        ImageArrays.of([tmp_path / "data_batch_1"], np.asarray)
    (tmp_path / "data_batch_2.bin").write_bytes(b"123")
    with pytest.raises(ValueError, match=r"3 bytes are no multiple of 1 \+ 3,072"):
        ImageArrays.of([tmp_path / "data_batch_2.bin"], np.asarray)
    np.savez(tmp_path / "x.npz", pixels=np.zeros(3))
    with pytest.raises(ValueError, match="needs `images` and `labels`"):
        ImageArrays.of([tmp_path / "x.npz"], np.asarray)
    with pytest.raises(ValueError, match="timm:NAME or torchvision:NAME"):
        image_model("resnet18")
    out = tmp_path / "y.npz"
    with pytest.raises(ValueError, match="knows 1 classes, but there are labels up to 1"):
        main(f"images --model {MODEL} --classes 1 --data {folder} --out {out}".split())


class Trap:
    def __reduce__(self):
        return (open, ("/nonexistent-trap", "w"))


def test_weights_are_read_without_running_them(tmp_path):
    path = tmp_path / "trap.pt"
    torch.save({"x": Trap()}, path)
    with pytest.raises(Exception, match=r"[Ww]eights"):
        state(path)
    torch.save({"state_dict": {"x": torch.ones(2)}}, tmp_path / "plain.pt")
    assert state(tmp_path / "plain.pt")["x"].tolist() == [1, 1]
