"""The experiments of the paper, as runs of one list on one of three profiles of data."""
