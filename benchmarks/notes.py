"""Measure what a pipeline finds and links correctly in notes, and in sentences with an ambiguous acronym.

    python benchmarks/notes.py PIPELINE [--show]

``notes.pubtator`` has 27 notes of eleven kinds. ``usual_acronyms.pubtator`` and
``sign_out_acronyms.pubtator`` have acronyms in their usual senses, without context. Those of the second are
the diseases and chemicals that acronyms mean in most sign-out notes of a hospital (Stetson et al. 2002,
"The sublanguage of cross-coverage"); the package does not have their counts. ``acronym_sentences.pubtator``
has sentences whose ids begin with their acronym; none of these acronyms is in
``project/release/acronym_sentences.pubtator``. All sentences were written for this project. The ids are
those of MeSH 2026, with "|" between alternatives.

For raw text: mentions with correct bounds, correct links, and NIL. For gold bounds: the share of correct
links, and the mean probabilities of correct and of wrong links.
"""

from pathlib import Path

import numpy as np
import typer
from spacy.tokens import Span

from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.evaluation.evaluate import gold_examples, link_examples
from spacy_pel.metrics.linking import markdown_table
from spacy_pel.pipeline.pipelines import linker_of, load_pipeline
from spacy_pel.spans import mention_spans

HERE = Path(__file__).parent
NOTES, DEV = HERE / "notes.pubtator", HERE / "acronym_sentences.pubtator"
WITHOUT_CONTEXT = tuple(HERE / f"{name}_acronyms.pubtator" for name in ("usual", "sign_out"))
TRAIN = HERE.parent / "project" / "release" / DEV.name
HEAD = ["", "mentions", "found %", "right %", "NIL", "in gold bounds %", "p right", "p wrong"]


def main(pipeline: str, show: bool = False) -> None:
    """Print the figures of PIPELINE on notes and acronyms; with --show also each mistake."""
    nlp = load_pipeline(pipeline)
    linker = linker_of(nlp)
    kb, table = linker.kb, []

    def current(ids: tuple[str, ...]) -> set[str]:
        return {kb[id].concept_id if id in kb else id for id in ids}

    for path in (NOTES, *WITHOUT_CONTEXT, DEV, TRAIN):
        documents = list(open_corpus(path).documents())
        examples = gold_examples(nlp, linker, [path])
        link_examples(nlp, linker, examples)
        of_text: list[list[bool]] = []
        of_bounds: list[tuple[bool, float]] = []
        for document, doc, example in zip(documents, nlp.pipe(d.text for d in documents), examples):
            acronym = str(document.id).rsplit("-", 1)[0] if path in (DEV, TRAIN) else ""
            found = {(e.start_char, e.end_char): e for e in doc.ents}
            gold = [m for m in document.mentions or () if acronym in ("", m.text)]
            linked = {
                (s.start_char, s.end_char): s
                for s in mention_spans(example.predicted, linker.spans_key)
            }
            for mention in gold[:1] if acronym else gold:
                bounds, wanted = (mention.start, mention.end), current(mention.ids)
                span, given = found.get(bounds), linked[bounds]
                right = span is not None and span._.kb_id in wanted
                of_text.append(
                    [span is not None, right, span is not None and span._.kb_id == "NIL"]
                )
                best = given._.kb_candidates[:1]
                p = best[0].get("probability", np.nan) if best else np.nan
                of_bounds.append((given._.kb_id in wanted, p))
                if show and not right:
                    near = [
                        said(e)
                        for e in doc.ents
                        if e.start_char < mention.end and mention.start < e.end_char
                    ]
                    print(
                        document.id,
                        mention.text,
                        sorted(wanted),
                        near,
                        "in bounds:",
                        said(given),
                        sep="\t",
                    )
        n_found, n_right, n_nil = np.sum(of_text, axis=0)
        is_right, p = np.array(of_bounds).T
        table.append(
            [
                str(path.relative_to(HERE.parent)),
                str(len(of_text)),
                f"{100 * n_found / len(of_text):.1f}",
                f"{100 * n_right / len(of_text):.1f}",
                str(n_nil),
                f"{100 * is_right.mean():.1f}",
                f"{np.nanmean(p[is_right == 1]):.2f}",
                f"{np.nanmean(p[is_right == 0]):.2f}",
            ]
        )
    print(markdown_table(HEAD, table))


def said(span: Span) -> str:
    """Return the words of a span, its id, and the name and probability of its best candidate."""
    best = span._.kb_candidates[:1]
    name, p = (best[0]["name"], best[0].get("probability") or np.nan) if best else ("", np.nan)
    return f"{span.text} = {span._.kb_id} ({name} {p:.2f})"


if __name__ == "__main__":
    typer.run(main)
