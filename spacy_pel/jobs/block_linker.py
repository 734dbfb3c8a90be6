"""The work on blocks of documents: which are to be linked, and the linking of one, in any process."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ..documents import format_named
from ..errors import PelError
from ..kb.copies import local_copy
from .bad_documents import OnError
from .block_folder import BlockFolder
from .document_blocks import Block, BlockReport, FileGroup, blocks_of
from .link_docs import Linking, LinkingChoices, read_matcher_names
from .link_files import LinkProgress, PartWriter, linking_settings
from .output_parts import differing


class BlockJob(NamedTuple):
    """What any process needs to link any block, as plain data. Every process must see the folder.

    Attributes:
        choices: The pipeline, and how it links.
        settings: All that decides the output; a process that finds others must not link.
        folder: The output folder.
        format: The name of the output's format.
        size: A block ends after this many documents, or bytes of them.
        copy_to: The folder of each node to which the KB is copied; None: all read the same KB.
    """

    choices: LinkingChoices
    settings: dict[str, Any]
    folder: str
    format: str
    size: tuple[int, int]
    copy_to: str | None = None

    @property
    def blocks(self) -> BlockFolder:
        """The files of the output folder."""
        return BlockFolder(Path(self.folder), format_named(self.format).suffixes[0])

    def work(self, group: FileGroup) -> Iterator[Block | BlockReport]:
        """The blocks of a group that are to be linked, and reports of those that are done."""
        folder = self.blocks
        for block in blocks_of(group, *self.size):
            counts = folder.finished(block.name, block.digest)
            is_bad = counts and counts.skipped and self.choices.on_error is OnError.stop
            if counts is None or is_bad:  # a bad one is linked again, to say why
                yield block
            else:
                yield BlockReport(block.name, block.n_bytes, counts, is_new=False)


class BlockLinker:
    """Links blocks, and writes each to its file. The pipeline is loaded for the first of them."""

    def __init__(self, job: BlockJob, device: str = "cpu") -> None:
        """Remember the job, and the name of the torch device of the encoders."""
        self.job = job
        self.device = device

    def __call__(self, block: Block, progress: LinkProgress = LinkProgress()) -> BlockReport:
        """Write the file of a block.

        Raises:
            PelError: The pipeline is not the one of the job, or a document is bad.
        """
        output = format_named(self.job.format).output_with(self.job.choices.xrefs)
        assert output is not None
        writer = PartWriter(self.linking, block.batch, block.first, output, progress)
        counts = self.job.blocks.write(block.name, block.digest, writer, output)
        return BlockReport(block.name, block.n_bytes, counts)

    @cached_property
    def linking(self) -> Linking:
        """The pipeline; with the copy of its KB, if there is one for each node."""
        choices = self.job.choices
        linking = choices.opened()
        own = linking_settings(linking)
        if different := differing(own, {k: self.job.settings[k] for k in own}):
            raise PelError(
                f"{socket.gethostname()}: has another {different}", "install the same on all nodes"
            )
        if self.job.copy_to is not None:
            folder = Path(os.path.expandvars(self.job.copy_to))
            linking.linker.set_kb(local_copy(linking.linker.kb, folder))
        if self.device != "cpu":
            for encoder in linking.linker.encoders.berts(linking.linker.reranked > 0):
                encoder.to(self.device)
        read_matcher_names(linking.nlp)
        return linking
