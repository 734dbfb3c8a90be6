"""Mentions of a knowledge base's entities, found in plain text by their names."""
