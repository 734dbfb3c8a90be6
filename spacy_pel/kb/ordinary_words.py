"""Ordinary words, which name an entity only in articles that have another name of it."""

# Words of four letters or more, without stop words, plurals, adverbs, and words for people and organisms.
# They occur 400 times or more in 4.7 million words of biomedical text, and 20 times or more in MedMentions,
# where at most 55 % of their occurrences are in mentions.
ORDINARY_WORDS = """
    ability able absence according action activated activation active activity addition additional
    administered affect affected affinity aged altered alternative apparent appear appeared approach
    assembly assess assessed associated association available average background based baseline basis
    behavior better biological bound capacity carried case cause caused change characteristics
    characterization characterized class clinical collected combination combined common compare compared
    comparison complete complex component concentration conditions conducted confirmed consensus conserved
    considered consistent construct contain contained containing content contrast contribute control
    correlated correlation corresponding course criteria critical current daily data days decrease
    decreased defects deficient defined degradation degree demonstrate demonstrated dependent derived
    describe described designed determine determined developed developing development developmental
    difference different direct distinct distribution dominant dose duration early effect effective
    efficacy elevated encoded encoding endogenous enhanced especially essential established evaluated
    events evidence examine examined example exercise exhibited expected experimental exposed exposure
    extent factors features fold followed following form formation found free frequency functional
    functions general generated genetic given greater group half health healthy high higher hours
    hypothesis identification identified identify impact impaired implicated importance important improve
    improved inactivation incidence include included including increase increased increasing independent
    indicate indicated indicating induce induced induction influence information inhibit inhibited
    inhibition initial initiation interact interaction interval invasive investigate investigated involved
    involvement isolated known lack large late later lead leading length level life light limited linked
    little localization located long lower major manner mature mean measured measures mechanism median
    mediated metabolic minutes modification modified molecular molecules month mortality multiple natural
    necessary normal novel number observed obtained occur occurred occurrence onset order outcome overall
    parameters partial particular performance performed period phase phenotype physical play plus point
    possibility possible post potent potential predicted prepared presence present presented prevalence
    previous primary prior process processing produce produced product production program promote
    properties proposed provide provided purified putative quality quantitative range rapid rate ratio
    received receiving recent recognition recruitment reduce reduced reduction regulates regulator related
    relationship relative release remained remains report reported represent required requires residues
    responsible responsive result resulted resulting revealed risk role safety sample scale score second
    secondary seen selected selection selective sensitive sensitivity series seven severe short showed
    shown shows signal significance significant similar single small social solution specific specifically
    specificity stable stage standard state status step stimulated strategy strong studied subsequent
    substrate sufficient suggest suggested suggesting support survival synthesis systems target targeted
    targeting technique temperature term tested therapeutic time total training transient treated types
    underlying understanding unique unknown useful value variety versus vitro volume week weight wide work
    year
""".split()
