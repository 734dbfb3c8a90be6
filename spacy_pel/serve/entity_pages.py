"""Find the web page of an entity at its source."""

import re
from urllib.parse import quote

# Patterns of ids and the URLs of their pages; the first match counts. A MeSH id has six or nine digits, a
# UMLS id seven. Registered ontologies have the permanent URLs of the OBO Foundry.
_PAGES = [
    (r"(?:MESH:)?([CD]\d{6}(?:\d{3})?)", "https://meshb.nlm.nih.gov/record/ui?ui={}"),
    (r"(?:UMLS:)?(C\d{7})", "https://uts.nlm.nih.gov/uts/umls/concept/{}"),
    (r"OMIM:(\d+)", "https://omim.org/entry/{}"),
    (r"ORPHA(?:NET)?[:_](\d+)", "https://www.orpha.net/en/disease/detail/{}"),
    (r"((?:BTO|CHEBI|CL|DOID|ECTO|EFO|FMA|FOODON|GO|HP|IDO|MAXO|MONDO|MP|NCBITAXON|NCIT|OBI|PATO|PR"
     r"|SO|SYMP|UBERON|VO)[:_]\w+)", "http://purl.obolibrary.org/obo/{}"),
]  # fmt: skip


def entity_page(id: str, pattern: str | None = None) -> str | None:
    """Return the URL of the page of an entity, or None for an id of an unknown source.

    Args:
        id: The concept id.
        pattern: A URL with "{id}" for all entities of the KB; None: the URL of a known source.
    """
    if pattern:
        return pattern.replace("{id}", quote(id, safe=""))
    if re.fullmatch(r"https?://\S+", id):  # OWL ontologies have such ids
        return id
    for ids, page in _PAGES:
        if match := re.fullmatch(ids, id, re.IGNORECASE):
            return page.format(match[1].replace(":", "_"))
    return None
