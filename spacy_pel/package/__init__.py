"""Make, check, and package whole pipelines."""
