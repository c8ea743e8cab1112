"""What does a transformer encoder ask for? A classifier of sequences.

Vaswani et al.: Attention Is All You Need (2017), the base model's encoder: 6 layers of width 512
with 8 heads; with norms before attention and feed-forward, as most have them today, and learned
positions as in BERT (Devlin et al. 2019).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as fn
from torch import nn

from dtrdiag.instrumentation.pytorch.step import Step
from dtrdiag.instrumentation.zoo.layers import Block, SelfAttention, feed_forward
from dtrdiag.instrumentation.zoo.registry import model, training_step


class Encoder(nn.Module):  # type: ignore[misc]
    """Tokens (N, T) to scores (N, classes), by the mean over positions of the last layer."""

    def __init__(
        self,
        length: int,
        layers: int,
        width: int,
        heads: int,
        hidden: int,
        vocabulary: int,
        classes: int,
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
                    SelfAttention(width, heads, dropout, attention),
                    feed_forward(width, hidden, nn.ReLU()),
                    dropout,
                )
                for _ in range(layers)
            )
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens: Any) -> Any:
        """Scores (N, classes)."""
        x = self.dropout(self.token(tokens) + self.position(self.positions))
        return self.head(self.norm(self.blocks(x)).mean(1))


@model(
    "transformer",
    small={
        "batch": 4, "length": 16, "layers": 2, "width": 32, "heads": 4, "hidden": 64,
        "vocabulary": 100,
    },
)  # fmt: skip
def transformer(
    batch: int = 32,
    length: int = 256,
    layers: int = 6,
    width: int = 512,
    heads: int = 8,
    hidden: int = 2048,
    vocabulary: int = 32_000,
    classes: int = 2,
    attention: str = "sdpa",
    dropout: float = 0.1,
) -> Step:
    """Transformer encoder that classifies sequences, of the base size, with dropout.

    Args:
        batch: number of sequences.
        length: tokens of a sequence.
        layers: number of layers.
        width: features of a position.
        heads: attention heads, a divisor of the width.
        hidden: features between the two linear maps of a layer.
        vocabulary: number of different tokens.
        classes: number of classes.
        attention: `sdpa` or `eager`.
        dropout: probability; with any, `sdpa` on a CPU keeps the scores as well.
    """
    network = Encoder(length, layers, width, heads, hidden, vocabulary, classes, attention, dropout)
    tokens = torch.randint(vocabulary, (batch, length))
    labels = torch.randint(classes, (batch,))
    return training_step(network, lambda x, y: fn.cross_entropy(network(x), y), tokens, labels)
