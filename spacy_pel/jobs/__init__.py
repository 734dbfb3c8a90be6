"""Long work on documents, in blocks that are kept: linking, joint linking, mining, discovery."""
