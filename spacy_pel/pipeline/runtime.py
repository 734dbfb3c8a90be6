"""What computes the encoders of a linker that links: torch, in which precision, or ONNX Runtime."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from ..architectures.biencoder import check_choice
from ..models.bert import BertEncoder
from ..models.onnx_states import OnnxStates

# Whether torch is to compute in bfloat16, where the processor can.
_TORCH = {"torch-float32": False, "torch-bfloat16": True}


class Runtime:
    """A runtime by its name: "torch", in the precision that was trained in, or one of those here.

    What ONNX Runtime computes with is made when it is first needed, in each process its own, and
    again for other weights. It is not copied or pickled.
    Raises PelError on an unknown name.
    """

    def __init__(self, name: str):
        check_choice("runtime", name, "torch", *_TORCH, "onnx", "onnx-int8")
        self.name = name
        # By process and encoder. What a process has of the one that it was forked from it must not
        # use, and not free either: there are threads to wait for, which it does not have.
        self._made: dict[tuple[int, int], OnnxStates] = {}
        self._lock = Lock()

    def __reduce__(self):
        return Runtime, (self.name,)

    @contextmanager
    def computes(self, encoders: list[BertEncoder]) -> Iterator[None]:
        """Have the states of these encoders computed by this runtime, for the time being."""
        if self.name == "torch":
            yield
            return
        with self._lock:  # else a thread that ends would take it from under another
            trained = [encoder.mixed_precision for encoder in encoders]
            try:
                for encoder in encoders:
                    if self.name in _TORCH:
                        encoder.mixed_precision = _TORCH[self.name]
                    else:
                        encoder.computed_by = self._states(encoder)
                yield
            finally:
                for encoder, precision in zip(encoders, trained):
                    encoder.computed_by, encoder.mixed_precision = None, precision

    def forget(self) -> None:
        """To be told when weights have changed in place."""
        self._made = {k: states for k, states in self._made.items() if k[0] != os.getpid()}

    def _states(self, encoder: BertEncoder) -> OnnxStates:
        place = os.getpid(), id(encoder)
        made = self._made.get(place)
        if made is None or made.transformer is not encoder.transformer:
            made = OnnxStates(encoder.transformer, int8=self.name == "onnx-int8")
            self._made[place] = made
        return made
