"""Acronyms in lower case, as notes that were typed in a hurry have them: "pmh htn, copd"."""

import re
from collections.abc import Collection

_TOKEN = re.compile(r"(?<![\w'.-])[a-z]{2,5}(?![\w'-])")
# Acronyms that words, or units, look like. Where a text has them in lower case, it means the word.
_WORDS = frozenset(
    """
    aa ad ads ages aid aids aim aims air al ale all alp alps am amp amps an and ant ape apo ara arc
    arcs are arg arm arms art as ash asp at ate axe bad bag ban bat bcl be bed bfl bid bit boa bop
    box bp bud bus but by cab cam camp camps can cap caps car cas case cast cat cats cc cdks cen che
    chip chop chr cis cl cm co cob com con cop cot cow cpm cry cup cur cut cys dab dam damp dash
    data den dent des df di did die dig dim dip dl do doc doe dog dom dome dot dox dry due dye ear
    eat eg egg ego elf em emb emit end era et etc eve ex eye face fact fad fade fan far fast fat fed
    fee few fib fig fin fish fit fl flap flip flu fog for form fur gal gap gaps gas gel gem get gift
    gin gla glu go god gold got gum gun gut had ham has hat hats he hem hen her hg hid him hip his
    hit hot how hr hrs hsa hub hug hum hut ice id ids ie if ill imp in ink inv iol ion irp is iso it
    its jam jar jaw jet job joy kg kid kin kit la lab lac lag lap last law lay leg let lid lids lie
    lip lit log lot low luc mab mac mad mag man map mar mars mass mast mat may me men met mg mid min
    mix ml mlt mm mo mob mod mom mop mph mr mrs mud mug mut my nap neo neor net new ng nil nm no nod
    none nor not now nut ob odd of off oil old on one opt or ore orfs our out own ox oz pace pad pal
    pan pap par pars part past pat pay pea pen pep per pest pet pg ph pi pie pig pin pit po pop post
    pot prn pro psr pt pts pub pump pus put pyr qd qid rag ran rank rap rare ras rash rat raw ray
    rds red rem rep res rest rho rib rid rig rim rip rob rod role root rope rot row rub rug run sac
    sad said sap sat saw say scan sea sec see set she side sip sir sis sit site six size skin sl
    snap snare so sob some son spa spec spot spy sq star stem step steps stop stops sub such sum sun
    tab tag tan tap tar task tat tax tea team tee ten tens test tet than that the then they this tic
    tid tie tin tip tips to toe ton too top tow trail tram trap tri trip try ts tub tube two un up
    ups us use van vast vat ve vet via vs war was wasp wave way we wet who why win wise wit wk won
    yes yet yo you yr zip
    """.split()
)
# With fewer letters too many are units and symbols, so that the whole text has to be in lower case.
_LEAST = 3


def with_capitals(text: str, acronyms: Collection[str]) -> str:
    """The text with acronyms in capitals, which are given in lower case; its length stays."""
    least = 2 if text.islower() else _LEAST

    def read(match: re.Match[str]) -> str:
        word = match[0]
        is_acronym = len(word) >= least and word in acronyms and word not in _WORDS
        return word.upper() if is_acronym else word

    return _TOKEN.sub(read, text) if acronyms else text
