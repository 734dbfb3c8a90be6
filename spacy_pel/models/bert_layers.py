"""The layers of a BERT, computed from the modules that hold their weights.

Hugging Face's own forward pass computes the last layer for every token. An encoder pools the states
of a few tokens only. In the last layer the other tokens are needed as keys and values alone: they
need no query, no feed-forward layer and no state, which is five sixths of a layer's cost.

Attention has no dropout, whatever the configuration says.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

# Vectors must not depend on the number of threads, to the last bit. Torch's sums do in a product of
# matrices with fewer rows than LEAST_ROWS, and in attention if the number of queries is no multiple
# of _QUERIES. So rows and queries are padded.
LEAST_ROWS = 16
_QUERIES = 4


def last_hidden_states(
    layers: Sequence[nn.Module], states: Tensor, mask: Tensor, wanted: Tensor | None = None
) -> Tensor:
    """Compute the states after the last layer.

    Args:
        layers: The layers of a ``Bert``, or of Hugging Face's.
        states: Float [n, t, d], the input embeddings.
        mask: bool [n, t], false for padding.
        wanted: bool [n, t], the tokens whose states are needed; the states of the others are 0.
            None for all tokens.

    Returns:
        Float [n, t, d].
    """
    keys = None if bool(mask.all()) else mask[:, None, None, :]
    if wanted is None:
        return _states_of_all(layers, states, keys)
    return _states_of_some(layers[-1], _states_of_all(layers[:-1], states, keys), keys, wanted)


def _states_of_all(layers: Sequence[nn.Module], states: Tensor, keys: Tensor | None) -> Tensor:
    """The states of all tokens after the layers, [n, t, d].

    keys: bool [n, 1, 1, t], the tokens that are attended to; None for all.
    """
    for layer in layers:
        queries = layer.attention.self.query(states)
        states = _fed_forward(layer, _attended(layer, queries, states, keys), states)
    return states


def _states_of_some(
    layer: nn.Module, states: Tensor, keys: Tensor | None, wanted: Tensor
) -> Tensor:
    """The states of the wanted tokens after the layer, [n, t, d]; 0 for the others.

    The w wanted tokens of all inputs are computed as one matrix [w, d]. They are padded for
    attention alone, to the largest number of an input.
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
    """The rows [w, d], with rows of zeros up to ``LEAST_ROWS``."""
    return nn.functional.pad(rows, (0, 0, 0, max(0, LEAST_ROWS - len(rows))))


def _attended(layer: nn.Module, queries: Tensor, states: Tensor, keys: Tensor | None) -> Tensor:
    """The attention of all heads: queries [n, q, d] over states [n, t, d] give [n, q, d]."""
    own = layer.attention.self
    n = queries.shape[1]
    padded = nn.functional.pad(queries, (0, 0, 0, -n % _QUERIES))
    inputs = (padded, own.key(states), own.value(states))
    heads = [x.unflatten(-1, (own.num_attention_heads, -1)).transpose(1, 2) for x in inputs]
    attended = nn.functional.scaled_dot_product_attention(*heads, attn_mask=keys)
    return attended[:, :, :n].transpose(1, 2).flatten(2)


def _fed_forward(layer: nn.Module, attended: Tensor, states: Tensor) -> Tensor:
    """The rest of a layer after attention, with its residual connections: [..., d] to [..., d]."""
    states = layer.attention.output(attended, states)
    return layer.output(layer.intermediate(states), states)
