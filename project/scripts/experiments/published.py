"""The figures of the papers' tables, by variant: PEL (Wiatrak et al. 2022), ArboEL and KRISSBERT."""

from __future__ import annotations

# Table 2 (MedMentions) and table 3 (ZESHEL): recall@1 and recall@64 by variant.
MEDMENTIONS_TABLE_2 = {
    "CE, mixed 32": (72.1, 95.5),
    "CE, mixed 64": (72.1, 95.6),
    "CE, random 64": (55.7, 94.0),
    "Pb, mixed 32": (71.6, 93.3),
    "Pb, mixed 64": (72.6, 95.0),
    "Pb, random 64": (63.3, 95.9),
    "CE, mixed 32, FGSM": (72.3, 95.5),
    "Pb, mixed 32, FGSM": (72.4, 93.7),
}
ZESHEL_TABLE_3 = {
    "CE, random 32": (44.1, 84.8),
    "Pb, random 32": (48.9, 85.2),
    "CE, random 32, FGSM": (44.1, 85.2),
    "Pb, random 32, FGSM": (49.7, 85.6),
    "CE, mixed 32": (52.5, 87.2),
    "Pb, mixed 32": (53.1, 86.0),
    "CE, mixed 32, FGSM": (53.2, 87.2),
    "Pb, mixed 32, FGSM": (54.2, 86.6),
}
# Table 4: auPR, precision and recall of NIL, recall@1 and recall@64 with NIL as a class.
NIL_TABLE_4 = {
    "Pb, mixed 32": (83.7, 81.2, 71.0, 72.6, 90.4),
    "Pb, mixed 32, margin 0.01": (84.4, 81.6, 71.5, 72.5, 90.2),
    "Pb, mixed 32, margin 0.05": (85.8, 83.3, 73.5, 72.4, 89.9),
    "Pb, mixed 32, margin 0.1": (87.6, 85.2, 79.2, 69.4, 85.7),
    "CE, mixed 32": (32.3, 31.8, 74.0, 64.4, 76.1),
}
# ArboEL (Agarwal et al. 2022), table 1: recall@1 and recall@64 on the test set of MedMentions, with all of UMLS.
ARBOEL_TABLE_1 = {
    "in-batch negatives": (58.70, 87.73),
    "k-NN negatives": (56.85, 86.11),
    "arborescence": (72.31, 95.67),
    "1-NN arborescence": (71.99, 95.23),
    "1-Rand arborescence": (71.27, 94.88),
}
# Table 3: recall@1 after reranking, of seen and of unseen entities, and with oracle candidates.
ARBOEL_TABLE_3 = {
    f"{name} + reranker": figures
    for name, figures in {
        "in-batch negatives": (73.31, 77.58, 58.47, 80.78, 47.96),
        "k-NN negatives": (70.76, 77.05, 48.85, 79.90, 21.12),
        "arborescence": (75.73, 79.97, 60.99, 76.09, 75.64),
        "1-NN arborescence": (74.73, 78.91, 60.19, 75.48, 74.71),
        "1-Rand arborescence": (74.89, 79.39, 59.22, 75.75, 74.95),
    }.items()
}
# Table 5: the adjusted Rand index over all mentions, over those of unseen entities, and of these alone.
ARBOEL_TABLE_5 = {
    "in-batch negatives": (0.37, 0.71, 0.71),
    "k-NN negatives": (0.26, 0.73, 0.80),
    "arborescence": (0.51, 0.83, 0.85),
    "1-NN arborescence": (0.47, 0.75, 0.83),
    "1-Rand arborescence": (0.35, 0.63, 0.81),
}
# Table 6: recall@1 by the best way of linking, then of seen and of unseen entities.
ARBOEL_TABLE_6 = {
    "in-batch negatives": (59.11, 61.88, 49.45),
    "k-NN negatives": (56.86, 64.03, 31.88),
    "arborescence": (72.19, 77.48, 53.79),
    "1-NN arborescence": (72.00, 77.29, 53.60),
    "1-Rand arborescence": (71.33, 77.02, 51.51),
}
# Tables 2, 5 and 7 of KRISSBERT: accuracy, and that on ambiguous mentions. All its own methods have
# mentions as rows, and all but that of mined mentions as rows (table 7) are reranked.
KRISSBERT_TABLES = {
    heading: {f"self-supervised: {name}": figures for name, figures in table.items()}
    for heading, table in {
        "NCBI": {
            "whole method + reranker": (83.2, 64.5),
            "whole method; mined mentions as rows": (82.8,),
            "whole method; all gold mentions as rows": (89.9,),
            "without mention pairs": (77.9,),
            "without references": (82.7,),
            "without aliases": (83.2,),
            "gold mentions alone": (76.9,),
            "names alone": (63.0, 57.1),
            "descriptions alone": (49.0,),
        },
        "BC5CDR-d": {
            "whole method + reranker": (85.5, 64.5),
            "whole method; mined mentions as rows": (85.0,),
            "whole method; all gold mentions as rows": (90.7,),
            "without mention pairs": (82.2,),
            "without references": (85.1,),
            "without aliases": (85.2,),
            "gold mentions alone": (85.5,),
            "names alone": (83.6, 63.9),
            "descriptions alone": (48.7,),
        },
        "BC5CDR-c": {
            "whole method + reranker": (96.5, 76.5),
            "whole method; mined mentions as rows": (95.1,),
            "whole method; all gold mentions as rows": (96.9,),
            "without mention pairs": (93.3,),
            "without references": (96.4,),
            "without aliases": (96.4,),
            "gold mentions alone": (93.8,),
            "names alone": (96.2, 76.4),
            "descriptions alone": (52.0,),
        },
        "MedMentions": {
            "whole method + reranker": (63.5, 52.5),
            "whole method; mined mentions as rows": (61.3,),
            "whole method; all gold mentions as rows": (70.6,),
            "without mention pairs": (49.9,),
            "without references": (61.5,),
            "without aliases": (63.2,),
            "gold mentions alone": (63.7,),
            "names alone": (44.2, 29.6),
            "descriptions alone": (19.4,),
        },
    }.items()
}
