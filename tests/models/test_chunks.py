import numpy as np
import pytest
from experiments.predict.chunks import predict


class Numbers:
    """Samples whose input is their number."""

    def __init__(self, n):
        self.labels = (np.arange(n) % 3).astype(np.int32)

    def batch(self, rows):
        return np.array(rows, dtype=np.float32)


def score(batch):
    return np.stack([batch, batch + 1, batch + 2], axis=1)


def test_a_run_that_was_stopped_goes_on_where_it_stood(tmp_path):
    seen = []

    def stopping(batch):
        if batch[0] >= 9:
            raise KeyboardInterrupt
        seen.extend(batch.tolist())
        return score(batch)

    out = tmp_path / "out.npz"
    options = {"identity": {"model": "a"}, "batch": 2, "chunk": 4, "progress": False}
    with pytest.raises(KeyboardInterrupt):
        predict(Numbers(11), stopping, out, **options)
    assert not out.exists()
    again = []

    def counting(batch):
        again.extend(batch.tolist())
        return score(batch)

    predict(Numbers(11), counting, out, **options)
    assert again == [8, 9, 10]  # the chunks from 0 and 4 were there
    with np.load(out, allow_pickle=False) as file:
        np.testing.assert_array_equal(file["logits"], score(np.arange(11, dtype=np.float32)))
        np.testing.assert_array_equal(file["labels"], np.arange(11) % 3)
    assert list(tmp_path.iterdir()) == [out]
    with pytest.raises(FileExistsError, match="is there already"):
        predict(Numbers(11), score, out, **options)


def test_chunks_of_another_model_are_not_mixed_in(tmp_path):
    def stopping(batch):
        if batch[0] >= 4:
            raise KeyboardInterrupt
        return score(batch)

    out = tmp_path / "out.npz"
    with pytest.raises(KeyboardInterrupt):
        predict(Numbers(8), stopping, out, {"model": "a"}, batch=4, chunk=4, progress=False)
    with pytest.raises(ValueError, match="holds chunks of another run"):
        predict(Numbers(8), score, out, {"model": "b"}, batch=4, chunk=4, progress=False)


def test_logits_that_are_none_are_refused(tmp_path):
    with pytest.raises(ValueError, match="finite logits"):
        predict(Numbers(3), lambda batch: score(batch) * np.nan, tmp_path / "a.npz", {})
    with pytest.raises(ValueError, match=r"must end in \.npz"):
        predict(Numbers(3), score, tmp_path / "a.csv", {})
