"""scispaCy's linker over the demo's knowledge base, made as its users make one of their own."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import spacy
from spacy.language import Language

from spacy_pel import KnowledgeBase
from spacy_pel.kb import SemanticType

UMLS = Path(__file__).parents[2] / "project" / "assets" / "demo" / "umls"
# What scispaCy's linker calls the demo's knowledge base.
NAME = "demo"


def offer_to_scispacy(kb: KnowledgeBase, folder: Path) -> None:
    """Let ``linker_name="demo"`` stand for the entities of the KB, as ``umls`` does for the UMLS.

    folder: where scispaCy's files of them are written.
    """
    from scispacy import candidate_generation
    from scispacy.linking_utils import UmlsKnowledgeBase

    write_jsonl(kb, folder / "kb.jsonl")
    write_types(kb.semantic_types, folder / "types.tsv")
    theirs = UmlsKnowledgeBase(str(folder / "kb.jsonl"), str(folder / "types.tsv"))
    # It refuses to build an index beside a scipy of today, for the sake of saving it alone.
    candidate_generation.scipy_supports_sparse_float16 = lambda: True
    aliases, vectorizer, index = candidate_generation.create_tfidf_ann_index(None, theirs)
    # In place of files that scispaCy would download.
    candidate_generation.DEFAULT_PATHS[NAME] = SimpleNamespace(
        get_concept_aliases=lambda: aliases,
        get_tfidf_vectorizer=lambda: vectorizer,
        get_ann_index=lambda *, ef_search=200: index,
    )
    candidate_generation.DEFAULT_KNOWLEDGE_BASES[NAME] = lambda: theirs


def write_jsonl(kb: KnowledgeBase, path: Path) -> None:
    """The entities in scispaCy's schema; their types are the codes in the demo's own file."""
    codes = defaultdict(list)
    for line in (UMLS / "MRSTY.RRF").read_text("utf8").splitlines():
        cui, code, *_ = line.split("|")
        codes[cui].append(code)
    with path.open("w", encoding="utf8") as file:
        for entity in kb:
            record = {
                "concept_id": entity.concept_id,
                "canonical_name": entity.canonical_name,
                "aliases": list(entity.aliases),
                "types": codes[entity.concept_id],
                "definition": entity.definition,
            }
            file.write(json.dumps(record) + "\n")


def write_types(types: Iterable[SemanticType], path: Path) -> None:
    """The semantic types as scispaCy reads them: all below one node of its own."""
    lines = [f"{type.name}\t{type.code or type.name}\t1" for type in types]
    path.write_text("\n".join(["UnknownType\tUnknownType\t0", *lines]), encoding="utf8")


def named_pipeline(kb: KnowledgeBase, own: Path, *linkers: str, **settings: Any) -> Language:
    """A pipeline that finds the names of the KB, in any case, and abbreviations, and links them.

    own: the pipeline of our linker. linkers: in their order; each is added with the settings.
    """
    import scispacy.abbreviation
    import scispacy.linking  # noqa: F401  (they register the components)

    configs = {"scispacy_linker": {"linker_name": NAME}, "proxy_linker": {"path": str(own)}}
    nlp = spacy.blank("en")
    nlp.add_pipe("abbreviation_detector")
    ruler = nlp.add_pipe("entity_ruler", config={"phrase_matcher_attr": "LOWER"})
    names = dict.fromkeys(name for entity in kb for name in entity.names)
    with nlp.select_pipes(enable=[]):
        ruler.add_patterns([{"label": "ENTITY", "pattern": name} for name in names])
    for name in linkers:
        nlp.add_pipe(name, config={**configs[name], **settings})
    return nlp


def users_code(nlp: Language, linker_name: str, text: str) -> Iterator[dict[str, Any]]:
    """What users of scispaCy's linker do with it: as in its README, and in their notebooks."""
    doc = nlp(text)
    linker = nlp.get_pipe(linker_name)
    tree = linker.kb.semantic_type_tree
    for mention in doc.ents:
        for cui, score in mention._.kb_ents:
            entity = linker.kb.cui_to_entity[cui]
            yield {
                "mention": mention.text,
                "cui": cui,
                "score": score,
                "concept_id": entity.concept_id,
                "canonical_name": entity.canonical_name,
                "aliases": sorted(entity.aliases + [entity.canonical_name]),
                "types": sorted(entity.types),
                "definition": entity.definition,
                "fields": len(entity),
                "type names": sorted(map(tree.get_canonical_name, entity.types)),
                "same name": cui in linker.kb.alias_to_cuis[entity.canonical_name],
            }
