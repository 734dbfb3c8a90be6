"""What the papers need beyond the package: data sets, metrics and statistics of their tables."""
