"""A trained pipeline behind HTTP: an API and a web page (needs the extra ``serve``)."""
