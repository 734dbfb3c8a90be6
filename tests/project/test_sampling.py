"""A sample of a knowledge base holds all that the corpora speak of."""

import gzip
import json

from experiments.sampling import write_sample

LINES = [
    {"concept_id": f"C{number}", "canonical_name": f"name {number}", "alt_ids": [f"A{number}"]}
    for number in range(50)
]
CORPUS = """1|t|Fever and chills.
1|a|None.
1\t0\t5\tFever\tDisease\tC7
1\t10\t16\tchills\tDisease\tA9|C11
"""


def sampled(folder, others):
    source, corpus, sample = folder / "kb.jsonl.gz", folder / "c.pubtator", folder / "sample.jsonl"
    with gzip.open(source, "wt", encoding="utf8") as file:
        file.writelines(json.dumps(line) + "\n" for line in LINES)
    corpus.write_text(CORPUS, "utf8")
    write_sample(source, [corpus], others, sample)
    return [json.loads(line) for line in sample.read_text("utf8").splitlines()]


def test_the_entities_of_the_corpora_and_others_by_lot(tmp_path):
    sample = sampled(tmp_path, 10)
    assert len(sample) == 13
    assert {"C7", "C9", "C11"} <= {entity["concept_id"] for entity in sample}
    assert sample == [line for line in LINES if line in sample]  # in the order of the source
    assert sampled(tmp_path, 10) == sample


def test_a_sample_as_large_as_the_source_is_the_source(tmp_path):
    assert sampled(tmp_path, 1000) == LINES
