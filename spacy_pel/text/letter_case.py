"""Read acronyms in lower case in capitals, and other words of lines in capitals in lower case."""

import re
from collections.abc import Collection

from ..kb.pieces import MAX_LETTERS

# An acronym in lower case, as in hastily typed notes: "pmh htn, t2dm".
_ACRONYM = re.compile(r"(?<![\w'.-])[a-z][a-z\d]{2,4}(?![\w'-])")
# Two letters may be a unit or a symbol, and a word with one capital may be a gene. They are read as acronyms
# only if the text has no capitals inside sentences.
_SHORT_ACRONYM = re.compile(r"(?<![\w'.-])[A-Za-z][a-z\d]{1,4}(?![\w'-])")
_CAPITAL_INSIDE = re.compile(r"[^\s.!?][^\S\n]*[A-Z]")
# A line in capitals, as in reports of radiology, has no other words in lower case than units, and a word in
# capitals that is no acronym.
_CAPITAL_LINE = re.compile(
    r"^(?!.*[a-z]{4})(?=.*(?:[A-Z]{6}|\b(?:AND|FOR|HAD|HAS|NOT|OF|ON|OR|PT|THE|TO|WAS|WITH)\b)).*",
    re.MULTILINE,
)
_CAPITALS = re.compile(r"(?<!\w)(\d+[., ]?)?([A-Z]{2,})(?!\w)")
# Ordinary words. They are acronyms only in capitals among lower case.
_WORDS = frozenset(
    """
    about ache after age air ale all also am an and ant are arm arms art as ash at ate back bad
    bag ban be bed been boa bop both box bp brat bud bus but by cab can carb case cast cat cats
    con cot cry cup cur cut daily dam dan data days dense did die dig dim dish do doe does dog
    dom dome done dot down dress dry due dye each ear eat egg ego elf end era eve ex exam eye
    face fact fade fan far fast fat fed fee few fig fin find first fit flap fog for form fret
    from fur gap gaps gas gel get gift given go god gold good got gum gun gut had ham has hat
    hats have he hem hen her here him hip his home hot hours how hug hum hut ice if ill in ink
    into iris is it its jam jar jet job joy just kid kin kit lag lap last law lay left leg let
    lid lids lie like lip list lit lives log lot low mad man mar mass mast mat may me meds men
    mild mix mop more most mud mug my name nap needs never new no none nor not note noted notes
    now nut odd of off often oil old on one only opt or other our out over own ox part past pay
    pea peep pen per pie plan post prior pro prom pub pump pus put ran rank rap rare rash rat
    raw ray red rest rib rid rig right rim rip rob rod role root rope rot row rug run said sam
    sat saw say scan sea see seen set she side since sit site six size skin small so soft some
    son spot spy star stem step steps still stop stops sub such sum sun taps task tax tea team
    ten test tet than that the their them then there these they this those tie tim tin tip tips
    to today toe tom ton too top tow trip try two un under until up ups us use van very visit
    war was wave way we weeks well were wet when where which while who why will win wise with
    won years yes yet you your
    """.split()
)
# Acronyms that are also units, symbols, or rarer words. In lower case, and behind a number, they are no
# acronyms.
_UNITS = frozenset(
    """
    aa ad ads ages aid aids aim aims al alp alps amp amps ape apo ara arc arcs arg asp axe bac
    bat bcl bfl bid bit cam camp camps cap caps car cas cc cdk cdks cen cfu cgi che chip chop
    chr cis cl cm co cob com cop cow cpm cys dab damp dash den dent des df di dip dl doc dox eg
    em emb emit est et etc fad fib fish fl flip flu gal gem gin gla glu hg hid hit hr hrs hsa
    hub id ids ie ii iii im imp inv iol ion irp iso iv jaw kg la lab lac lod lox luc mab mac mag
    map mars met mets mg mid min mins ml mlt mm mo mob mod mom mph mr mrs mth mths mut neo neor
    net ng nil nm nod ob oct ore orfs oz pace pad pal pan pap par pars pat pep pest pet pg ph pi
    pig pin pit po pop pot prn psr pt pts pyr qd qid rag ras rds rem rep res rho rub sac sad sap
    sec secs sem sim sip sir sis sl snap snare sob spa spec sq str tab tag tan tap tar tat tee
    tens tic tid trail tram trap tri ts tub tube vas vast vat ve vet via vs wasp wit wk wks yo
    yr yrs zip
    """.split()
)


def in_usual_case(text: str, acronyms: Collection[str]) -> str:
    """Return the text with acronyms in capitals, and with the other words of lines in capitals in lower case.

    In such lines, a word of five letters or fewer is an acronym, unless it is an ordinary word ("WAS").

    Args:
        text: The text. Offsets stay.
        acronyms: The acronyms of a KB, in lower case, which are read in capitals.
    """
    text = _CAPITAL_LINE.sub(lambda line: _CAPITALS.sub(_without_capitals, line[0]), text)
    if not acronyms:
        return text
    pattern = _ACRONYM if _CAPITAL_INSIDE.search(text) else _SHORT_ACRONYM
    words = {word: word.lower() for word in pattern.findall(text)}
    read = {
        word
        for word, low in words.items()
        if low in acronyms and low not in _WORDS and low not in _UNITS
    }
    if not read:  # as in most texts
        return text
    return pattern.sub(lambda match: match[0].upper() if match[0] in read else match[0], text)


def _without_capitals(match: re.Match[str]) -> str:
    number, word = match.groups("")
    low = word.lower()
    is_acronym = len(word) <= MAX_LETTERS and low not in _WORDS and not (number and low in _UNITS)
    return match[0] if is_acronym else number + low
