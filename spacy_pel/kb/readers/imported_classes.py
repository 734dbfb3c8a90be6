"""Leave out the classes that an ontology has imported from other ontologies."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator

from ...errors import PelError
from ..records.entity import Entity

ALL = "all"  # instead of prefixes: every class


def id_prefix(id: str) -> str:
    """Return the prefix of an id, "CL" of "CL:0000000"; "" if it has none."""
    prefix, colon, _ = id.partition(":")
    return prefix if colon and "/" not in id else ""


def own_entities(
    entities: Iterable[Entity], ontology: str, prefixes: Collection[str], left_out: Counter[str]
) -> Iterator[Entity]:
    """Yield the entities of an ontology's own classes, then those of the imported classes to keep.

    A class is the ontology's own if its id has no prefix, or the name of the ontology as its prefix. If no
    class has this prefix, the most frequent prefix counts instead. If no id has a prefix, all classes are
    kept. An ontology with a name may consist mostly of imports, such as EFO. Then the imports below its own
    classes are kept, too.

    Args:
        entities: The entities of all classes.
        ontology: The IRI of the ontology, or the end of one, as in OBO: "cl/cl-basic". It may be "".
        prefixes: Prefixes to keep instead, in any case; ``ALL`` keeps every class. Empty: as above.
        left_out: Receives the number of ids that were left out by prefix, at the end.

    Raises:
        PelError: No id has one of the given prefixes (at the end).
    """
    wanted = {prefix.casefold() for prefix in prefixes} or {"", _name(ontology)}
    counts, held = Counter[str](), list[Entity]()
    for entity in entities:
        prefix = id_prefix(entity.concept_id)
        counts[prefix.casefold()] += 1
        if prefix.casefold() in wanted or ALL in wanted:
            yield entity
        else:
            held.append(entity)
    kept = set[str]() if prefixes else _kept(held, _name(ontology), counts)
    for entity in held:
        if entity.concept_id in kept:
            yield entity
    out = {entity.concept_id for entity in held} - kept
    left_out.update(map(id_prefix, sorted(out)))
    if prefixes and len(held) == counts.total() > 0:
        known = ", ".join(prefix for prefix, _ in left_out.most_common())
        problem = f"no class has the prefix {' or '.join(prefixes)}"
        raise PelError(problem, f"choose from {known or ALL}")


def _name(ontology: str) -> str:
    """Return the name of an ontology: "go" for ".../obo/go/extensions/go-plus.owl"."""
    steps = ontology.rpartition("/obo/")[2].split("/")
    name = steps[-1] if "http" in steps[0] else steps[0]
    return re.split("[._#-]", name)[0].casefold()


def _kept(held: Iterable[Entity], name: str, counts: Counter[str]) -> set[str]:
    """Return the ids to keep of classes that do not have the prefix ``name``."""
    n_most = counts.total() / 2
    ids = {entity.concept_id for entity in held}
    if not (name and counts[name]):
        most = {prefix for prefix, count in counts.items() if count > n_most}
        return {id for id in ids if not most or id_prefix(id).casefold() in most}
    if counts[name] > n_most:
        return set()
    children = defaultdict[str, list[str]](list)
    for entity in held:
        for parent in entity.parents:
            children[parent].append(entity.concept_id)
    kept, tops = set[str](), [id for id in children if id_prefix(id).casefold() == name]
    while tops:
        new = set(children.get(tops.pop(), ())) - kept
        kept |= new
        tops += new
    return kept
