"""What do several of the models consist of? Self-attention, and the blocks of transformers."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as fn
from torch import nn

from dtrdiag.errors import UsageError
from dtrdiag.instrumentation.zoo.registry import multiple
from dtrdiag.suggestions import no_such

ATTENTIONS = ("sdpa", "eager")
"""How attention is computed: in one operator that keeps no scores, or by several that keep them."""


class SelfAttention(nn.Module):  # type: ignore[misc]
    """Multi-head self-attention, (N, T, width) to (N, T, width).

    Vaswani et al.: Attention Is All You Need (2017), section 3.2. `sdpa` is torch's
    `scaled_dot_product_attention`; `eager` makes the scores (N, heads, T, T) one operator at a
    time, which is where memory goes that grows with the square of T. On a CPU torch has no fused
    kernel for attention with dropout, so that `sdpa` keeps scores there too.

    Args:
        width: features of a position.
        heads: number of heads, a divisor of the width.
        dropout: probability with which a weight of attention is dropped.
        attention: `sdpa` or `eager`.
        context: with it a position sees none after it, and T is at most this; None: it sees all.

    Raises:
        UsageError: the heads do not divide the width; unknown kind of attention.
    """

    def __init__(
        self, width: int, heads: int, dropout: float, attention: str, context: int | None = None
    ) -> None:
        super().__init__()
        multiple("width", width, heads)
        if attention not in ATTENTIONS:
            raise UsageError(no_such("attention", attention, ATTENTIONS))
        self.heads = heads
        self.dropout = dropout
        self.attention = attention
        self.causal = context is not None
        self.project_in = nn.Linear(width, 3 * width)
        self.project_out = nn.Linear(width, width)
        if context is not None and attention == "eager":
            later = torch.ones(context, context, dtype=torch.bool).triu(1)
            self.register_buffer("later", later, persistent=False)

    def forward(self, x: Any) -> Any:
        """What each position gathers from those that it sees."""
        batch, length, width = x.shape
        heads = self.project_in(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
        dropout = self.dropout if self.training else 0.0
        if self.attention == "sdpa":
            mixed = fn.scaled_dot_product_attention(
                query, key, value, dropout_p=dropout, is_causal=self.causal
            )
        else:
            mixed = self._eager(query, key, value, dropout)
        return self.project_out(mixed.transpose(1, 2).reshape(batch, length, width))

    def _eager(self, query: Any, key: Any, value: Any, dropout: float) -> Any:
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        if self.causal:
            length = scores.shape[-1]
            scores = scores.masked_fill(self.later[:length, :length], -math.inf)
        return fn.dropout(fn.softmax(scores, -1), dropout, training=self.training) @ value


class Block(nn.Module):  # type: ignore[misc]
    """A layer of a transformer, (N, T, width) to (N, T, width); norms come before what they feed.

    Args:
        width: features of a position.
        attention: what mixes positions.
        feed_forward: what works on each position by itself.
        dropout: probability with which a feature of either's output is dropped.
    """

    def __init__(
        self, width: int, attention: nn.Module, feed_forward: nn.Module, dropout: float
    ) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = attention
        self.norm2 = nn.LayerNorm(width)
        self.feed_forward = feed_forward
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Any) -> Any:
        """The layer's output."""
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.feed_forward(self.norm2(x)))


def feed_forward(width: int, hidden: int, activation: nn.Module) -> nn.Sequential:
    """Two linear maps with an activation between them, for each position: width to width."""
    return nn.Sequential(nn.Linear(width, hidden), activation, nn.Linear(hidden, width))
