"""Small files in the layout of the official downloads, made by hand."""

import zipfile
from pathlib import Path

from ..conftest import write_text
from ..kb.readers.test_mesh import SUPPLEMENT, concept, descriptor

CDR = "CDR_Data/CDR.Corpus.v010516/"
LISTS = "medmentions/full/data/corpus_pubtator_pmids_"


def document(pmid: str, title: str, *mentions: str) -> str:
    return "\n".join([f"{pmid}|t|{title}", f"{pmid}|a|", *(f"{pmid}\t{m}" for m in mentions)])


TRAIN = document("1", "Flu and gout.", "0\t3\tFlu\tDisease\tD2", "8\t12\tgout\tDisease\t-1")
DEV = document("2", "Grippe.", "0\t6\tGrippe\tDisease\tMESH:D2", "CID\tD1\tD2")
TEST = document("3", "Gout.", "0\t4\tGout\tDisease\tD5")
# As published: blank lines first, a stray blank in an id, and a PMID twice.
NCBI = "\n" + document("4", "Flu.", "0\t3\tFlu\tSpecificDisease\t D2") + "\n\n"
NCBI += document("4", "Flu.", "0\t3\tFlu\tSpecificDisease\tD2") + "\n\n"
# Of BC5CDR's dev and test, and one more.
BIORED = document("5", "Flu.", "0\t3\tFlu\tDiseaseOrPhenotypicFeature\tD2,D5") + "\n\n"
MEDMENTIONS = {
    "trng": document("7", "Heart and head.", "0\t5\tHeart\tT017\tUMLS:C0018787"),
    "dev": document("8", "Eyes.", "0\t4\tEyes\tT017\tUMLS:C0015392"),
    "test": document("9", "Hand.", "0\t4\tHand\tT017\tUMLS:C0018563"),
}
INFLUENZA = descriptor("D2", "Influenza", ["C01.5"], concept(["Influenza", "Grippe"], "A virus."))
DESCRIPTORS = f"<DescriptorRecordSet>{INFLUENZA}</DescriptorRecordSet>"
SUPPLEMENTS = f"<SupplementalRecordSet>{SUPPLEMENT}</SupplementalRecordSet>"
MEDIC = (
    "# Fields:\n# DiseaseName\tDiseaseID\tAltDiseaseIDs\tDefinition\tParentIDs\tSynonyms\n"
    "Influenza\tMESH:D2\tOMIM:614680\t\tMESH:C\tFLU7\nGOUT 3\tOMIM:300323\t\t\t\t\n"
)
MAPPING = "subject_id\tpredicate_id\tobject_id\nMONDO:1\tskos:exactMatch\tUMLS:C0021400\n"
ONTOLOGIES = {
    "mondo": "[Term]\nid: MONDO:1\nname: influenza\nxref: DOID:1\n",
    "doid": "[Term]\nid: DOID:1\nname: flu\nxref: UMLS_CUI:C0021400\n\n"
    "[Term]\nid: DOID:2\nname: vague\nxref: UMLS_CUI:C0000001\nxref: UMLS_CUI:C0000002\n",
    "hp": "[Term]\nid: HP:1\nname: Fever\n",
    "uberon": "[Term]\nid: UBERON:1\nname: heart\nxref: UMLS:C0018787\n",
}


def write_downloads(assets: Path) -> None:
    """The downloads of all recipes, in a folder."""
    write_zip(
        assets / "bc5cdr/CDR_Data.zip",
        {
            f"__MACOSX/{CDR}._CDR_TrainingSet.PubTator.txt": "junk",
            f"{CDR}CDR_TrainingSet.PubTator.txt": TRAIN,
            f"{CDR}CDR_DevelopmentSet.PubTator.txt": DEV,
            f"{CDR}CDR_TestSet.PubTator.txt": TEST,
        },
    )
    for split in ("train", "develop", "test"):
        archive = assets / f"ncbi_disease/NCBI{split}set_corpus.zip"
        write_zip(archive, {f"NCBI{split}set_corpus.txt": NCBI})
    both = {f"BioRED/{name}.PubTator": f"{DEV}\n\n{BIORED}{TEST}\n" for name in ("Train", "Dev")}
    write_zip(assets / "biored/BIORED.zip", both)
    texts = {
        "mesh/desc2026.gz": DESCRIPTORS,
        "mesh/supp2026.gz": SUPPLEMENTS,
        "medic/CTD_diseases.tsv.gz": MEDIC,
        "medmentions/st21pv/data/corpus_pubtator.txt.gz": "\n\n".join(MEDMENTIONS.values()),
        **{f"{LISTS}{name}.txt": text[:1] + "\n" for name, text in MEDMENTIONS.items()},
        **{f"obo/{name}.obo": f"format-version: 1.2\n\n{t}" for name, t in ONTOLOGIES.items()},
        "obo/mondo_exactmatch_umls.sssom.tsv": MAPPING,
    }
    for name, text in texts.items():
        write_text(assets / name, text)


def write_zip(path: Path, texts: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(name, text)
