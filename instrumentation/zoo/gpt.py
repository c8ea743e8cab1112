"""What does GPT-2 ask for? A language model of causal self-attention with tied embeddings.

Radford et al.: Language Models are Unsupervised Multitask Learners (2019). Small has 12 layers of
width 768 (124,439,808 parameters), XL 48 of width 1600 (1,557,611,200).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as fn
from torch import nn

from dtrdiag.instrumentation.pytorch.step import Step
from dtrdiag.instrumentation.zoo.layers import Block, SelfAttention, feed_forward
from dtrdiag.instrumentation.zoo.registry import model, training_step


class GPT(nn.Module):  # type: ignore[misc]
    """Tokens (N, T) to scores (N, T, vocabulary) of the token that follows each.

    The matrix that embeds tokens also gives the scores: one parameter, two gradients that add up.
    """

    def __init__(
        self,
        length: int,
        layers: int,
        width: int,
        heads: int,
        vocabulary: int,
        attention: str,
        dropout: float,
    ) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(length, width)
        self.register_buffer("positions", torch.arange(length), persistent=False)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(
            *(
                Block(
                    width,
                    SelfAttention(width, heads, dropout, attention, context=length),
                    feed_forward(width, 4 * width, nn.GELU(approximate="tanh")),
                    dropout,
                )
                for _ in range(layers)
            )
        )
        self.norm = nn.LayerNorm(width)
        for module in self.modules():
            if isinstance(module, (nn.Embedding, nn.Linear)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens: Any) -> Any:
        """Scores (N, T, vocabulary)."""
        x = self.dropout(self.token(tokens) + self.position(self.positions))
        return fn.linear(self.norm(self.blocks(x)), self.token.weight)


def _gpt(batch: int, length: int, vocabulary: int, **sizes: Any) -> Step:
    network = GPT(length=length, vocabulary=vocabulary, **sizes)
    text = torch.randint(vocabulary, (batch, length + 1))

    def loss(tokens: Any, following: Any) -> Any:
        return fn.cross_entropy(network(tokens).flatten(0, 1), following.flatten())

    return training_step(network, loss, text[:, :-1].clone(), text[:, 1:].clone())


SMALL = {
    "batch": 2, "length": 16, "layers": 2, "width": 32, "heads": 4, "vocabulary": 100,
}  # fmt: skip


@model("gpt2", small=SMALL)
def gpt2(
    batch: int = 8,
    length: int = 1024,
    layers: int = 12,
    width: int = 768,
    heads: int = 12,
    vocabulary: int = 50_257,
    attention: str = "sdpa",
    dropout: float = 0.0,
) -> Step:
    """GPT-2 small: causal attention in one operator, tied embeddings, 8 x 1024 tokens.

    Args:
        batch: number of sequences.
        length: tokens of a sequence, and the model's context.
        layers: number of layers.
        width: features of a position.
        heads: attention heads, a divisor of the width.
        vocabulary: number of different tokens.
        attention: `sdpa` or `eager`.
        dropout: probability; with any, `sdpa` on a CPU keeps the scores as well.
    """
    return _gpt(
        batch, length, vocabulary,
        layers=layers, width=width, heads=heads, attention=attention, dropout=dropout,
    )  # fmt: skip


@model("gpt2-xl", small=SMALL)
def gpt2_xl(
    batch: int = 1,
    length: int = 1024,
    layers: int = 48,
    width: int = 1600,
    heads: int = 25,
    vocabulary: int = 50_257,
    attention: str = "sdpa",
    dropout: float = 0.0,
) -> Step:
    """GPT-2 XL: the same at 48 layers of width 1600, one sequence of 1024 tokens.

    Args:
        batch: number of sequences.
        length: tokens of a sequence, and the model's context.
        layers: number of layers.
        width: features of a position.
        heads: attention heads, a divisor of the width.
        vocabulary: number of different tokens.
        attention: `sdpa` or `eager`.
        dropout: probability; with any, `sdpa` on a CPU keeps the scores as well.
    """
    return _gpt(
        batch, length, vocabulary,
        layers=layers, width=width, heads=heads, attention=attention, dropout=dropout,
    )  # fmt: skip
