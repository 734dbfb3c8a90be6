"""Fit the ranking, the NIL threshold and joint linking to annotated documents."""
