"""Change what a knowledge base knows, and check names and ids against it, with a linker's help."""
