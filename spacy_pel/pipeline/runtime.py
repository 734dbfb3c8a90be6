"""What computes the encoders when a linker links: torch, in some precision, or ONNX Runtime."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from ..architectures.setting_checks import check_choice
from ..models.bert import BertEncoder
from ..models.onnx_states import OnnxStates

# Whether torch computes in bfloat16, on processors that can.
_TORCH = {"torch-float32": False, "torch-bfloat16": True}


class Runtime:
    """What computes encoders, by its name.

    ONNX Runtime needs a session for an encoder. It is made when it is first needed, once in each
    process, and again if the weights change. It is not copied or pickled.

    Args:
        name: "torch", in the precision that was trained in; "torch-float32" or "torch-bfloat16";
            "onnx" or "onnx-int8".

    Raises:
        PelError: There is no runtime of this name.
    """

    def __init__(self, name: str):
        check_choice("runtime", name, "torch", *_TORCH, "onnx", "onnx-int8")
        self.name = name
        # By process and encoder. A forked process must neither use nor free the sessions of its
        # parent: they wait for threads that the fork does not have.
        self._made: dict[tuple[int, int], OnnxStates] = {}
        self._lock = Lock()

    def __reduce__(self):
        return Runtime, (self.name,)

    @contextmanager
    def computes(self, encoders: list[BertEncoder]) -> Iterator[None]:
        """Within the block, this runtime computes the states of the encoders.

        Args:
            encoders: The encoders of a linker.
        """
        if self.name == "torch":
            yield
            return
        with self._lock:  # else one thread would put torch back while another still computes
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
        """Drop what was made of the weights: they have changed in place."""
        self._made = {k: states for k, states in self._made.items() if k[0] != os.getpid()}

    def _states(self, encoder: BertEncoder) -> OnnxStates:
        place = os.getpid(), id(encoder)
        made = self._made.get(place)
        if made is None or made.transformer is not encoder.transformer:
            made = OnnxStates(encoder.transformer, int8=self.name == "onnx-int8")
            self._made[place] = made
        return made
