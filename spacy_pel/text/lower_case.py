"""Acronyms in lower case, as in hastily typed notes: "pmh htn, copd"."""

import re
from collections.abc import Collection

_TOKEN = re.compile(r"(?<![\w'.-])[a-z]{3,5}(?![\w'-])")
# Two letters may be a unit or a symbol, and a word with one capital may be a gene. They are read as acronyms
# only if the text has no capitals inside sentences.
_SHORT_TOKEN = re.compile(r"(?<![\w'.-])[A-Za-z][a-z]{1,4}(?![\w'-])")
_CAPITAL_INSIDE = re.compile(r"[^\s.!?][^\S\n]*[A-Z]")
# Acronyms that are also words or units. In lower case they are the word.
_WORDS = frozenset(
    """
    aa ad ads ages aid aids aim aims air al ale all alp alps am amp amps an and ant ape apo ara arc
    arcs are arg arm arms art as ash asp at ate axe bac bad bag ban bat bcl be bed bfl bid bit boa
    bop box bp bud bus but by cab cam camp camps can cap caps car cas case cast cat cats cc cdk cdks
    cen cfu cgi che chip chop chr cis cl cm co cob com con cop cot cow cpm cry cup cur cut cys dab
    dam damp dash data den dent des df di did die dig dim dip dl do doc doe dog dom dome dot dox dry
    due dye ear eat eg egg ego elf em emb emit end era est et etc eve ex eye face fact fad fade fan
    far fast fat fed fee few fib fig fin fish fit fl flap flip flu fog for form fur gal gap gaps gas
    gel gem get gift gin gla glu go god gold got gum gun gut had ham has hat hats he hem hen her hg
    hid him hip his hit hot how hr hrs hsa hub hug hum hut ice id ids ie if ii iii ill im imp in ink
    inv iol ion irp is iso it its iv jam jar jaw jet job joy kg kid kin kit la lab lac lag lap last
    law lay leg let lid lids lie lip lit lod log lot low lox luc mab mac mad mag man map mar mars
    mass mast mat may me men met mg mid min mins mix ml mlt mm mo mob mod mom mop mph mr mrs mth
    mths mud mug mut my nap neo neor net new ng nil nm no nod none nor not now nut ob oct odd of off
    oil old on one opt or ore orfs our out own ox oz pace pad pal pan pap par pars part past pat pay
    pea pen pep per pest pet pg ph pi pie pig pin pit po pop post pot prn pro psr pt pts pub pump
    pus put pyr qd qid rag ran rank rap rare ras rash rat raw ray rds red rem rep res rest rho rib
    rid rig rim rip rob rod role root rope rot row rub rug run sac sad said sap sat saw say scan sea
    sec secs see sem set she side sim sip sir sis sit site six size skin sl snap snare so sob some
    son spa spec spot spy sq star stem step steps stop stops str sub such sum sun tab tag tan tap
    tar task tat tax tea team tee ten tens test tet than that the then they this tic tid tie tin tip
    tips to toe ton too top tow trail tram trap tri trip try ts tub tube two un up ups us use van
    vas vast vat ve vet via vs war was wasp wave way we wet who why win wise wit wk wks won yes yet
    yo you yr yrs zip
    """.split()
)


def with_capitals(text: str, acronyms: Collection[str]) -> str:
    """Return the text with these acronyms, which are lower-cased, in capitals."""
    if not acronyms:
        return text

    def read(match: re.Match[str]) -> str:
        word = match[0].lower()
        return word.upper() if word in acronyms and word not in _WORDS else match[0]

    return (_TOKEN if _CAPITAL_INSIDE.search(text) else _SHORT_TOKEN).sub(read, text)
