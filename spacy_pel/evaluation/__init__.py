"""Measure a linker on annotated documents."""
