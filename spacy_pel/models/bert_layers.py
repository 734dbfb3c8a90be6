"""The layers of a BERT, computed here from the parts that Hugging Face keeps their weights in.

Its own forward pass gives a state for every token. What is pooled are a few tokens of an input,
and only the last layer's attention reads the others once more: there they need no queries, no
feed-forward layer and no state, which is five sixths of what a layer costs a token.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

# The last bits of torch's sums depend on its number of threads in a product of matrices with fewer
# rows than so many, and in attention with a number of queries that these do not divide.
LEAST_ROWS = 16
_QUERIES = 4


def last_hidden_states(
    layers: Sequence[nn.Module], states: Tensor, mask: Tensor, wanted: Tensor | None = None
) -> Tensor:
    """States behind the last of the layers, [n, t, d], of the embeddings [n, t, d].

    layers: those of a Hugging Face BERT. mask: bool [n, t], the tokens that there are.
    wanted: bool [n, t], the tokens whose states are to be had; the others' are 0. None for all.
    """
    keys = None if bool(mask.all()) else mask[:, None, None, :]
    if wanted is None:
        return _states_of_all(layers, states, keys)
    return _states_of_some(layers[-1], _states_of_all(layers[:-1], states, keys), keys, wanted)


def _states_of_all(layers: Sequence[nn.Module], states: Tensor, keys: Tensor | None) -> Tensor:
    """States behind the last of the layers, [n, t, d]; of no layers, those given.

    keys: bool [n, 1, 1, t], the tokens that are attended to; None for all.
    """
    for layer in layers:
        queries = layer.attention.self.query(states)
        states = _fed_forward(layer, _attended(layer, queries, states, keys), states)
    return states


def _states_of_some(
    layer: nn.Module, states: Tensor, keys: Tensor | None, wanted: Tensor
) -> Tensor:
    """States behind the layer, [n, t, d], of the tokens wanted; 0 for the others.

    They are computed side by side, [w, d], and padded only in attention, to the input with most.
    """
    places = wanted.nonzero(as_tuple=True)
    columns = (wanted.cumsum(1) - 1)[wanted]
    asking = _at_least(states[places])
    queries = layer.attention.self.query(asking)[: len(columns)]
    padded = queries.new_zeros(len(states), int(wanted.sum(1).max()), queries.shape[-1])
    padded = padded.index_put((places[0], columns), queries)
    attended = _attended(layer, padded, states, keys)[places[0], columns]
    found = _fed_forward(layer, _at_least(attended), asking)[: len(columns)]
    return found.new_zeros(states.shape).index_put(places, found)


def _at_least(rows: Tensor) -> Tensor:
    """The rows [w, d], and as many of zeros as are wanting."""
    return nn.functional.pad(rows, (0, 0, 0, max(0, LEAST_ROWS - len(rows))))


def _attended(layer: nn.Module, queries: Tensor, states: Tensor, keys: Tensor | None) -> Tensor:
    """What the heads read: queries [n, q, d], states [n, t, d] -> [n, q, d]."""
    own = layer.attention.self
    n = queries.shape[1]
    padded = nn.functional.pad(queries, (0, 0, 0, -n % _QUERIES))
    parts = (padded, own.key(states), own.value(states))
    split = [part.unflatten(-1, (own.num_attention_heads, -1)).transpose(1, 2) for part in parts]
    read = nn.functional.scaled_dot_product_attention(*split, attn_mask=keys)
    return read[:, :, :n].transpose(1, 2).flatten(2)


def _fed_forward(layer: nn.Module, attended: Tensor, states: Tensor) -> Tensor:
    """The rest of a layer, each with its residual connection: [..., d] -> [..., d]."""
    states = layer.attention.output(attended, states)
    return layer.output(layer.intermediate(states), states)
