"""Read acronyms in lower case in capitals, and other words of lines in capitals in lower case."""

import re
from collections.abc import Collection

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
# Acronyms that are also words. They are acronyms only in capitals among lower case.
_WORDS = frozenset(
    """
    ache age air ale all am an and ant are arm arms art as ash at ate bad bag ban be bed boa bop
    box bp brat bud bus but by cab can carb case cast cat cats con cot cry cup cur cut dam dan
    data did die dig dim dish do doe dog dom dome dot dress dry due dye ear eat egg ego elf end
    era eve ex eye face fact fade fan far fast fat fed fee few fig fin fit flap fog for form
    fret fur gap gaps gas gel get gift go god gold got gum gun gut had ham has hat hats he hem
    hen her him hip his hot how hug hum hut ice if ill in ink iris is it its jam jar jet job joy
    kid kin kit lag lap last law lay leg let lid lids lie lip lit log lot low mad man mar mass
    mast mat may me men mix mop mud mug my nap new no none nor not now nut odd of off oil old on
    one opt or our out own ox part past pay pea peep pen per pie post pro prom pub pump pus put
    ran rank rap rare rash rat raw ray red rest rib rid rig rim rip rob rod role root rope rot
    row rug run said sam sat saw say scan sea see set she side sit site six size skin so some
    son spot spy star stem step steps stop stops sub such sum sun taps task tax tea team ten
    test tet than that the then they this tie tim tin tip tips to toe tom ton too top tow trip
    try two un up ups us use van war was wave way we wet who why win wise won yes yet you
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

    Args:
        text: The text. Offsets stay.
        acronyms: The acronyms of a KB, in lower case. Without them, any word in capitals may be one, unless
            it is an ordinary word, such as "WAS".
    """

    def without_capitals(match: re.Match[str]) -> str:
        number, word = match.groups("")
        low = word.lower()
        is_known = not acronyms or low in acronyms
        is_acronym = is_known and low not in _WORDS and not (number and low in _UNITS)
        return match[0] if is_acronym else number + low

    text = _CAPITAL_LINE.sub(lambda line: _CAPITALS.sub(without_capitals, line[0]), text)
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
