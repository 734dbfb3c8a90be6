"""A tokenizer and its word pieces, for the tests of readers."""

from tokenizers import Tokenizer

from spacy_pel.text.token_inputs import TokenIds, train_tokenizer

TEXTS = [
    "the patient had hepatotoxicity and severe pain after aspirin",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z",
    "toxic hepatitis, acute; methyl groups (1 2 3)",
]
TOKENIZER = train_tokenizer(TEXTS, 150)
REFERENCE = Tokenizer.from_str(TOKENIZER.to_str())
REFERENCE.encode_special_tokens = True


def pieces(*texts: str) -> list[str]:
    """The word pieces of texts that are tokenised apart."""
    return [p for t in texts for p in REFERENCE.encode(t, add_special_tokens=False).tokens]


def as_pieces(tokens: TokenIds) -> list[str]:
    return [REFERENCE.id_to_token(int(id)) for id in tokens.ids]
