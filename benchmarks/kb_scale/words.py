"""Invented biomedical names: words built from stems, and names built from words."""

import numpy as np

PREFIXES = (
    "a an ante anti auto bi brady chemo contra cryo cyto de dys ecto endo epi eu exo extra "
    "fibro hemi hetero holo homo hydro hyper hypo immuno infra inter intra iso leuko macro mega "
    "meso meta micro mono multi myo neo neuro oligo onco ortho osteo para per peri photo poly "
    "post pre pro pseudo psycho pyo radio retro sclero semi sub super supra sym tachy thermo "
    "trans tri ultra uni vaso xantho"
).split()
STEMS = (
    "acin aden adren alveol amnio angi anthrac arteri arthr ather aur bacill bil blast blephar "
    "bronch burs calc capill carcin card carp caud cephal cerebr cervic chol chondr chrom col "
    "cost crani cyst dactyl dendr derm dextr dipl duoden encephal enter erythr esophag fasci "
    "femor fer fibul gangli gastr gingiv gli glomerul gloss gluc glyc gon granul gyn hem hepat "
    "hist humer ile ischi jejun kerat labi lact lamin laryng ligament lingu lip lith lob lumb "
    "lymph mamm mandibul mast maxill medull melan mening mitr muc myc myel nas necr nephr nod "
    "ocul odont opt orbit ovari oxal palat pancreat parathyr pariet path pector pelv phag "
    "pharyng phleb plasm pleur pneum prostat pulmon pyel radicul ren retin rhin sacr salping "
    "sarc sept sial spermat splen spondyl stern stomat synapt synov tars tempor tend testicul "
    "thalam thorac thromb thym thyr tibi tonsill trache trich tympan ulcer uln ureter urethr "
    "uter uve vagin valvul ventricul vertebr vesic vitre vulv"
).split()
SUFFIXES = (
    "ia itis osis oma ectomy ostomy otomy oscopy opathy algia ectasis emia uria plegia rrhea "
    "trophy plasty pexy desis centesis gram graphy logy megaly malacia ptosis stenosis "
    "sclerosis spasm al ar ary ic eal oid ous iform genic lytic tropic cyte blast coccus bacter "
    "virus mycosis amide amine ane ate azole cillin cycline dipine ene ide idine ine mab mide "
    "mycin nib olol one oxacin pril profen sartan statin triptan tinib ase in ogen ol ose yl us "
    "um a is ensis ella"
).split()
PLAIN = (
    "of and in with the due to left right acute chronic type upper lower congenital disease "
    "syndrome structure procedure product injection tablet oral solution cell gene protein "
    "level measurement entire part region finding disorder infection injury open closed primary "
    "secondary malignant benign unspecified other system surface observable human species "
    "strain MG/ML subunit receptor alpha beta gamma-1 α-2 β-like κB Sjögren Ménière's "
    "Guillain–Barré Köhler's naïve 50% 2,4-di- (R)-N- [H+] I II III IV 1 2 3 10 25 100 0.5"
).split()
QUALIFIERS = "disorder finding procedure substance organism qualifier value body structure".split()
ACCENTED = str.maketrans("aeiou", "áéíöü")
KANA = "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホ症病炎性腫瘍"


def vocabulary(random: np.random.Generator, n_words: int = 150_000) -> list[str]:
    """The words, the frequent ones first."""
    parts = (PREFIXES, STEMS, STEMS, SUFFIXES)
    draws = [random.integers(len(part), size=2 * n_words).tolist() for part in parts]
    shapes = random.random(2 * n_words).tolist()
    made = dict.fromkeys(PLAIN)
    for first, stem, second, last, shape in zip(*draws, shapes):
        if shape < 0.03:  # a gene symbol
            word = f"{STEMS[stem][:3].upper()}{STEMS[second][:1].upper()}{first}{'ps'[last % 2]}"
        elif shape < 0.5:
            word = STEMS[stem] + SUFFIXES[last]
        elif shape < 0.8:
            word = PREFIXES[first] + STEMS[stem] + SUFFIXES[last]
        else:
            word = f"{STEMS[stem]}o{STEMS[second]}{SUFFIXES[last]}"
        made[word.capitalize() if shape % 0.1 < 0.02 else word] = None
        if len(made) == n_words:
            break
    return list(made)


def word_numbers(random: np.random.Generator, n: int, n_words: int) -> list[int]:
    """Draw n words; their frequencies follow a power law, as in text."""
    return (n_words ** random.random(n) - 1).astype(np.int64).tolist()


def base_names(random: np.random.Generator, n: int, words: list[str]) -> list[list[str]]:
    """The words of n names: usually one to eight, sometimes dozens."""
    lengths = 1 + random.binomial(8, 0.3, size=n)
    long = random.random(n) < 0.002
    lengths[long] = random.integers(15, 60, size=int(long.sum()))
    drawn = [words[number] for number in word_numbers(random, int(lengths.sum()), len(words))]
    ends = np.cumsum(lengths).tolist()
    return [drawn[end - length : end] for end, length in zip(ends, lengths.tolist())]


def variant(base: list[str], kind: int, word: str, number: int) -> str:
    """A synonym of the name with the words ``base``, as vocabularies write synonyms."""
    name = " ".join(base)
    if kind == 0:
        return f"{base[-1]}, {' '.join(base[:-1])}" if len(base) > 1 else f"{name} NOS"
    if kind == 1:
        return f"{name} ({QUALIFIERS[number % len(QUALIFIERS)]})"
    if kind == 2:
        return f"{word} {name}"
    if kind == 3:
        return f"{name.capitalize()}, {word}"
    if kind == 4:
        return f"{''.join(part[0] for part in base).upper()}{number % 100}"
    if kind == 5:
        return f"{name.upper()} {number}"
    if kind == 6:
        return f"{word} {base[0]} {number}"
    return f"{name}s [{word}]"


def foreign(base: list[str], language: str, number: int) -> str:
    """A name in the letters of another language."""
    if language in ("JPN", "CHI"):
        return "".join(KANA[(number + 7 * len(word)) % len(KANA)] for word in base) + str(number)
    return f"{' '.join(base[::-1]).translate(ACCENTED)} {number}"
