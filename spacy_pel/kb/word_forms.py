"""Word forms: "neurons" and "neuronal" are forms of "neuron", if a knowledge base has that word.

The words of the KB's names decide: for each of them all its forms are made and kept in a table. A text is
compared by the table alone, and needs no stemmer. Forms that are no word of a name, such as the plural of
"gen", do no harm: they lead to the same word as long as no other word has them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from .pieces import MAX_LETTERS, Pieces, hash_of
from .records.entity import Entity
from .records.names import american

# From the ending of a word to the endings of its inflected forms.
_INFLECTIONS = {
    "": "s", "s": "ses", "x": "xes", "z": "zes", "ch": "ches", "sh": "shes", "y": "ies", "f": "ves",
    "um": "a", "on": "a", "us": "i", "a": "ae", "is": "es ides", "ix": "ices", "ex": "ices",
    "ma": "mata", "nx": "nges", "men": "mina", "foot": "feet", "tooth": "teeth", "corpus": "corpora",
    "genus": "genera", "viscus": "viscera", "mouse": "mice",
}  # fmt: skip
# To those of adjectives.
_ADJECTIVES = {
    "": "al ic ular ous", "a": "al ar ary ic", "ia": "ic", "e": "al ial ic ar etic", "o": "onic",
    "y": "ic ical ial", "um": "al ar", "us": "al ar ic eal", "ion": "ial", "ton": "tal", "is": "al ic",
    "sis": "tic", "ex": "ical", "ix": "ical", "nx": "ngeal", "ma": "matic matous", "le": "ular",
    "ule": "ular", "er": "ral rous", "kidney": "renal", "liver": "hepatic", "lung": "pulmonary",
    "heart": "cardiac", "eye": "ocular", "tooth": "dental", "mouth": "oral", "nose": "nasal",
    "skin": "cutaneous dermal", "stomach": "gastric", "vein": "venous", "vessel": "vascular",
    "brain": "cerebral", "bone": "osseous", "spleen": "splenic", "bladder": "vesical",
}  # fmt: skip
# To those of verbs, in a KB of processes.
_VERBS = {
    "ation": "ate ates ated ating ative atory ize izes ized izing",
    "ction": "ct cts cted cting ctive ce ces ced cing",
    "etion": "ete etes eted eting", "ution": "ute utes uted uting", "ition": "it its ited iting ive",
    "ption": "pted pting be bes bed bing", "sion": "se ses sed sing ss sses ssed ssing ssive",
    "growth": "grow grows grown growing",
}  # fmt: skip
# Other words for an abnormality, in a KB of phenotypes: "skeletal involvement" is a skeletal abnormality.
_ABNORMALITY = "abnormality"
_SIGNS = "involvement manifestation finding feature sign symptom change".split()
_MIN_PROCESSES = 0.25  # the share of names that end in "ion", such as "oxidation", in such a KB
_ADJECTIVE = re.compile("(?:al|ar|ary|eal|ic|ous)$")
_MIN_LETTERS = 4  # of a word that has adjectives
# An adjective of names is a form of a noun only if the noun is in this share of as many names: "dorsal", said
# of many parts, is no form of "dorsum".
_MIN_SHARE = 0.1
_SKIPPED = frozenset("- ' the".split())  # they may stand or be missing in a name
# Prefixes with an optional hyphen.
_PREFIXES = frozenset(
    "anti dys epi extra hyper hypo infra inter intra macro micro mid non oligo para peri poly post pre"
    " pseudo retro semi sub supra".split()
)
_LONGEST_ENDING = 7
_BETWEEN = re.compile(r"[_()\[\]]")  # what stands between the words of a name
_PRIME = re.compile(r" prime\b")
_NUMBERS = {
    word: str(n)
    for n, word in enumerate("one two three four five six seven eight nine ten".split(), 1)
}
OTHER, EXACT, CANONICAL = range(3)  # the ranks of names
_WORDS = re.compile(r"[^\W_]+")
_OF = re.compile(" of (?:the )?")
_CACHE_SIZE = 50_000


def forms_of(word: str, endings: dict[str, str]) -> Iterator[str]:
    """Yield the forms that a word may have by a table of endings."""
    if len(word) > 2 and word.isalpha():
        for start in range(max(0, len(word) - _LONGEST_ENDING), len(word) + 1):
            for new in endings.get(word[start:], "").split():
                yield word[:start] + new


@lru_cache(_CACHE_SIZE)
def word_of(piece: str) -> str:
    """Return the form of a piece for comparing words; "" for a skipped piece."""
    word = american(piece.casefold())
    return "" if word in _SKIPPED else _NUMBERS.get(word, word)


@lru_cache(_CACHE_SIZE)
def word_hash(word: str) -> int:
    """Return the hash of a word (``word_of``); 0 for a skipped one."""
    return hash_of(word, b"form") if word else 0


_END = hash_of("", b"form")  # of a text
OF, _COMMA, _TYPE = (np.uint64(word_hash(word)) for word in ("of", ",", "type"))


@lru_cache(_CACHE_SIZE)
def _piece_hash(piece: str) -> int:
    return word_hash(word_of(piece)) if piece else _END


def word_hashes(pieces: Pieces) -> np.ndarray:
    """Return the hash of each piece's word, uint64 [n]; 0 for a skipped piece."""
    hashes, words = pieces.hashes(_piece_hash), pieces.words
    for at, mark in enumerate(words):
        if mark == "'" and words[at + 1] == "s":  # "Barr's body" is "Barr body"
            hashes[at + 1] = 0
        elif mark == "-" and words[at + 1].isalpha() and words[at - 1].casefold() in _PREFIXES:
            # "pre-auricular" is "preauricular"
            hashes[at - 1 : at + 2] = _piece_hash(words[at - 1] + words[at + 1]), 0, 0
    return hashes


def form_table(names: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the hashes of all forms of the words of names, ascending, and of the word each is a form of."""
    spaced = [_spaced(name) for name in names]
    counts = Counter(word_of(piece) for piece in Pieces(spaced).words)
    bases: dict[str, str] = {}
    has_processes = sum(name.endswith("ion") for name in spaced) > _MIN_PROCESSES * len(spaced)
    for word, count in counts.items():
        if len(word) >= _MIN_LETTERS:
            for form in forms_of(word, _ADJECTIVES):
                if counts[form] * _MIN_SHARE <= count:
                    bases.setdefault(form, word)
                    bases.setdefault(form + ("ly" if form.endswith("l") else "ally"), word)
            for form in forms_of(word, _VERBS) if has_processes else ():
                bases.setdefault(form, word)
    if _ABNORMALITY in counts:
        bases |= {form: _ABNORMALITY for sign in _SIGNS for form in (sign, f"{sign}s")}
    for word in counts:
        if word not in bases:
            bases |= dict.fromkeys(forms_of(word, _INFLECTIONS), word)
    table = {}
    for form, base in bases.items():
        seen = {form}
        while base in bases and base not in seen:
            seen.add(base)
            base = bases[base]
        table[word_hash(form)] = word_hash(base)
    forms = np.array(sorted(table), np.uint64)
    return forms, np.array([table[form] for form in forms.tolist()], np.uint64)


def in_one_form(hashes: np.ndarray, forms: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Return hashes of words, uint64 [n], that are equal for all forms of a word."""
    if not len(forms):
        return hashes
    places = np.minimum(forms.searchsorted(hashes), len(forms) - 1)
    return np.where(forms[places] == hashes, words[places], hashes)


def name_words(
    names: Sequence[str], forms: np.ndarray, words: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the words of names in one form, in all orders that mean the same (``_reordered``).

    Returns:
        The bounds of each wording, int64 [n + 1], the hashes of its words and of its end, uint64, and the
        name that it is of, int64 [n].
    """
    pieces = Pieces([_spaced(name) for name in names])
    spelled = word_hashes(pieces)
    hashes = in_one_form(spelled, forms, words)
    ends, flat, texts = [0], list[int](), list[int]()
    for text, (start, stop) in enumerate(pairwise(pieces.first.tolist())):
        name = [hash for hash in hashes[start : stop - 1].tolist() if hash]
        if (
            len(name) == 1
            and _ADJECTIVE.search(names[text])
            and name != spelled[start : stop - 1].tolist()
        ):
            continue  # the gene is not meant by the name "genetic"
        for wording in (name, *_reordered(name)):
            kept = [hash for hash in wording if hash != _COMMA]
            if kept:
                flat += *kept, 0
                ends.append(len(flat))
                texts.append(text)
    return np.array(ends), np.array(flat, np.uint64), np.array(texts, np.int64)


def _reordered(words: list[int]) -> Iterator[list[int]]:
    """Yield other orders of the hashes of a name's words."""
    for mark in (OF, _COMMA):  # "wall of heart" and "anemia, severe"
        if words.count(mark) == 1 and 0 < (at := words.index(mark)) < len(words) - 1:
            yield [*words[at + 1 :], *words[:at]]
    if len(words) > 2 and words[0] == _TYPE:  # "type C brachydactyly"
        yield [*words[2:], *words[:2]]
    elif len(words) > 2 and words[-2] == _TYPE:
        yield [*words[-2:], *words[:-2]]


def _initials(name: str) -> str:
    """Return the initials of a name's words in lower case; "" for fewer than two or more than five words."""
    words = _WORDS.findall(name.casefold())
    return "".join(word[0] for word in words) if 2 <= len(words) <= MAX_LETTERS else ""


def _spaced(name: str) -> str:
    """Return a name with blanks between its words: "5' UTR" for "five_prime_UTR"."""
    return _PRIME.sub("'", _BETWEEN.sub(" ", name))


def ranked_names(entity: Entity, word_forms: bool) -> Iterator[tuple[str, int]]:
    """Yield the names of an entity to find in texts, and their ranks.

    ``word_forms`` leaves out two kinds of synonyms of one word: those that are narrower, broader, or related,
    and those that follow "of" in another name. Thus "skin" does not mean "neoplasm of skin", even if the KB
    has this synonym. A synonym of the initials of another name is an acronym: "FED" means fish eye disease,
    but "fed" does not.
    """
    scopes, names = entity.scopes, entity.names
    initials = set(map(_initials, names)) if word_forms else ()
    wholes = {_OF.split(name.casefold())[-1] for name in names if _OF.search(name)}
    for name in names:
        is_exact = scopes.get(name, "exact") == "exact"
        rank = CANONICAL if name == entity.canonical_name else EXACT if is_exact else OTHER
        if not word_forms:
            yield name, rank
        elif name.casefold() in initials:
            yield name.upper(), rank
        elif (
            len(_WORDS.findall(name)) > 1
            or rank == CANONICAL
            or rank
            and name.casefold() not in wholes
        ):
            yield name.removeprefix("the "), rank
