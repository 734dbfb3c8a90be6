"""A pipeline that links jointly, with settings made up for texts whose outcome is known."""

from pathlib import Path

from spacy.language import Language

from spacy_pel.linking.joint import JointSettings, Neighbourhood

from ..rankings import ranking_by_score

TEXTS = [f"Case {n}: {text}" for n in range(4) for text in ("MS and RA.", "headache by MS.")]


def make_joint(
    nlp: Language,
    linking: Neighbourhood = Neighbourhood(2, 0.0, True),
    discovery: Neighbourhood = Neighbourhood(4, 0.9, False),
    intercept: float = 0.0,
) -> Language:
    """Have a pipeline link jointly; alike mentions mean the same with a logit of 10 * cosine."""
    linker = nlp.get_pipe("proxy_linker")
    linker.ranking = ranking_by_score()
    linker.joint = JointSettings(10.0, intercept, linking, discovery)
    return nlp


def write_texts(path: Path, texts: list[str] = TEXTS) -> Path:
    """Write texts, one a line."""
    path.write_text("\n".join(texts) + "\n", encoding="utf8")
    return path
