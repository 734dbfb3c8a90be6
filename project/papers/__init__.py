"""The experiments of the papers: data sets, metrics, and statistics of their tables."""
