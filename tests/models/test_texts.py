import csv
import json

import numpy as np
import pytest
import torch
from experiments.predict.__main__ import main
from experiments.predict.models import text_scores
from experiments.predict.texts import Texts
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from riskalign.data.files import open_predictions

WORDS = ["good", "bad", "fine", "awful", "the", "product"]
SMALL = {"vocab_size": 10, "pad_token_id": 0}
KINDS = {
    "bert": lambda: BertForSequenceClassification(
        BertConfig(
            hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
            num_labels=5, **SMALL,
        )
    ),
    "distilbert": lambda: DistilBertForSequenceClassification(
        DistilBertConfig(dim=16, n_layers=2, n_heads=2, hidden_dim=32, num_labels=5, **SMALL)
    ),
    "roberta": lambda: RobertaForSequenceClassification(
        RobertaConfig(
            hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
            num_labels=5, max_position_embeddings=64, **SMALL,
        )
    ),
}  # fmt: skip


@pytest.fixture(params=KINDS)
def model(request, tmp_path):
    """A small classifier of a real class, with a tokenizer, saved as its library saves it."""
    torch.manual_seed(1)
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", *WORDS])}
    words = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]",
        model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip
    folder = tmp_path / request.param
    KINDS[request.param]().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def reviews():
    generator = np.random.default_rng(0)
    return [
        {"stars": int(stars), "review": " ".join(generator.choice(WORDS, 1 + row % 7))}
        for row, stars in enumerate(generator.integers(1, 6, 23))
    ]


def test_reviews_to_file(model, reviews, tmp_path):
    table = tmp_path / "reviews.csv"
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["stars", "review"])
        writer.writeheader()
        writer.writerows(reviews)
    out = tmp_path / "predictions.npz"
    options = "--text review --label stars --classes 1 2 3 4 5 --length 32 --batch 4 --chunk 8"
    main(f"texts --model {model} --data {table} --out {out} {options}".split())
    found = open_predictions(out).read()
    assert found.labels.tolist() == [review["stars"] - 1 for review in reviews]
    # padding in a batch must not move the logits of a text
    alone = text_scores(str(model), 32)
    expected = np.concatenate([alone([review["review"]]) for review in reviews])
    np.testing.assert_allclose(found.scores, expected, atol=1e-5)


def test_tables_of_every_kind_say_the_same(reviews, tmp_path):
    import pyarrow
    from pyarrow import parquet

    (tmp_path / "r.jsonl").write_text("\n".join(json.dumps(review) for review in reviews) + "\n")
    floats = [{**review, "stars": float(review["stars"])} for review in reviews]
    parquet.write_table(pyarrow.Table.from_pylist(floats), tmp_path / "r.parquet")
    first, second = (
        Texts.of(tmp_path / f"r.{kind}", "review", "stars") for kind in ("jsonl", "parquet")
    )
    assert first.texts == second.texts
    assert first.labels.tolist() == second.labels.tolist()
    assert first.labels.max() == 4


def test_what_cannot_be_read_is_said(tmp_path):
    table = tmp_path / "r.jsonl"
    table.write_text('{"text": "a", "label": "6"}\n')
    with pytest.raises(ValueError, match="no column 'stars'; there are text, label"):
        Texts.of(table, "text", "stars")
    with pytest.raises(ValueError, match=r"labels \['6'\] are not among the classes"):
        Texts.of(table, "text", "label", ["1", "2"])
