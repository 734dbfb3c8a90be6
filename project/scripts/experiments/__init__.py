"""The experiments of the paper: one list of them, run on one of three profiles of corpora."""
