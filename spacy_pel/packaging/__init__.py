"""Pipelines made ready to be used by others: started, assembled, averaged, checked."""
