"""A trained pipeline behind HTTP: an API, and a page to look at (extra ``serve``)."""
