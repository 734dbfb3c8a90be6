"""python -m spacy pel"""
pel = None
