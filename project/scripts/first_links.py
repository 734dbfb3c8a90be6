"""Print each mention of three sentences with its label, id in MeSH, name and probability."""

import spacy

TEXTS = [
    "Her MS relapsed: the scan showed new plaques, and natalizumab was started.",
    "Patients with rheumatoid arthritis (RA) took methotrexate; RA improved.",
    "She developed Parkinson's disease, and levodopa relieved her tremor.",
]

nlp = spacy.load("en_pel_mesh_sm")  # the package that comes trained
for doc in nlp.pipe(TEXTS):
    print(doc.text)
    for ent in doc.ents:
        name = ent._.kb_candidates[0]["name"]
        print(f"    {ent.text:<24} {ent._.kb_id:<8} {name:<28} {ent._.kb_probability:.0%}")
