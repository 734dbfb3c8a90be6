"""A corpus that a linker can be evaluated on."""

# Alternatives, an alternative id (X3), an entity that the KB lacks, and NIL. The ruler, which would
# find "kidney" as well, has no say.
CORPUS = """\
1|t|Aspirin relieves headache and RA.
1|a|MS is not measured in the kidney.
1\t0\t7\tAspirin\tTERM\tC05
1\t17\t25\theadache\tTERM\tC99|C06
1\t30\t32\tRA\tTERM\tX3
1\t34\t36\tMS\tTERM\tC98
1\t44\t52\tmeasured\tTERM\t-1

"""
