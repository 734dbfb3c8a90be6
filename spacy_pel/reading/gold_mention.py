"""A mention whose entities are known, as annotators gave them: what a linker learns from."""

from __future__ import annotations

from typing import NamedTuple

from .mention import MentionInContext


class GoldMention(NamedTuple):
    """A mention and the entities that it may mean.

    Attributes:
        context: The mention in the text of its document.
        golds: The numbers of its gold entities in the knowledge base, at least one. Any of them
            is right.
        written_in: The text of its document as it is written, where the context has long forms in
            place of acronyms. It tells documents apart.
    """

    context: MentionInContext
    golds: tuple[int, ...]
    written_in: str = ""

    @property
    def surface(self) -> str:
        """The words of the mention."""
        return self.context.surface
