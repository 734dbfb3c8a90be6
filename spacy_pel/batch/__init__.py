"""Process many documents in blocks that can be resumed."""
