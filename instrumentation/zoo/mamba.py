"""What does a state-space model ask for? Blocks like Mamba's, with the scan unrolled over time.

Gu, Dao: Mamba: Linear-Time Sequence Modeling with Selective State Spaces (2023), section 3 and
algorithm 2, at the width of their smallest model. The scan is a loop in plain PyTorch: a chain of
small operators within each layer, each of which autograd keeps the state of.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as fn
from torch import nn

from dtrdiag.instrumentation.pytorch.step import Step
from dtrdiag.instrumentation.zoo.registry import model, training_step


class SelectiveBlock(nn.Module):  # type: ignore[misc]
    """A residual layer, (N, T, width) to (N, T, width), whose state is (N, 2 * width, states).

    Step size, input and output matrices depend on the position: that is what is selective.

    Args:
        width: features of a position.
        states: length of the state behind each inner feature.
    """

    def __init__(self, width: int, states: int) -> None:
        super().__init__()
        inner, rank = 2 * width, math.ceil(width / 16)
        self.parts = [rank, states, states]
        self.norm = nn.RMSNorm(width)
        self.project_in = nn.Linear(width, 2 * inner, bias=False)
        self.conv = nn.Conv1d(inner, inner, 4, padding=3, groups=inner)
        self.select = nn.Linear(inner, sum(self.parts), bias=False)
        self.step_size = nn.Linear(rank, inner)
        self.log_decay = nn.Parameter(torch.arange(1.0, states + 1).log().repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))
        self.project_out = nn.Linear(inner, width, bias=False)
        # Steps between 0.001 and 0.1 at first: the inverse of softplus of such numbers.
        steps = torch.exp(torch.rand(inner) * math.log(100) + math.log(0.001))
        with torch.no_grad():
            self.step_size.bias.copy_(steps + torch.log(-torch.expm1(-steps)))

    def forward(self, x: Any) -> Any:
        """The layer's output."""
        inner, gate = self.project_in(self.norm(x)).chunk(2, -1)
        inner = self.conv(inner.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)
        inner = fn.silu(inner)
        y = self._scan(inner) + self.skip * inner
        return x + self.project_out(y * fn.silu(gate))

    def _scan(self, inner: Any) -> Any:
        """The recurrence over positions, (N, T, inner) to (N, T, inner)."""
        low, into, out = self.select(inner).split(self.parts, -1)
        step = fn.softplus(self.step_size(low))
        decay = torch.exp(step.unsqueeze(-1) * -torch.exp(self.log_decay))
        drive = (step * inner).unsqueeze(-1) * into.unsqueeze(2)
        state = torch.zeros_like(drive[:, 0])
        made = []
        # Unbound once: a slice at each position would have a gradient as large as the whole.
        for kept, added, read in zip(
            *(each.unbind(1) for each in (decay, drive, out)), strict=True
        ):
            state = kept * state + added
            made.append(torch.bmm(state, read.unsqueeze(-1)).squeeze(-1))
        return torch.stack(made, 1)


class Mamba(nn.Module):  # type: ignore[misc]
    """Tokens (N, T) to scores (N, T, vocabulary), with tied embeddings."""

    def __init__(self, layers: int, width: int, states: int, vocabulary: int) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.token.weight, std=0.02)
        self.blocks = nn.Sequential(*(SelectiveBlock(width, states) for _ in range(layers)))
        self.norm = nn.RMSNorm(width)

    def forward(self, tokens: Any) -> Any:
        """Scores (N, T, vocabulary)."""
        return fn.linear(self.norm(self.blocks(self.token(tokens))), self.token.weight)


@model(
    "mamba",
    small={"batch": 2, "length": 12, "layers": 1, "width": 32, "states": 4, "vocabulary": 100},
)
def mamba(
    batch: int = 8,
    length: int = 128,
    layers: int = 4,
    width: int = 768,
    states: int = 16,
    vocabulary: int = 50_280,
) -> Step:
    """Selective state-space language model, its scan unrolled over 128 positions.

    Args:
        batch: number of sequences.
        length: tokens of a sequence.
        layers: number of layers.
        width: features of a position.
        states: length of the state behind each inner feature.
        vocabulary: number of different tokens.
    """
    network = Mamba(layers, width, states, vocabulary)
    text = torch.randint(vocabulary, (batch, length + 1))

    def loss(tokens: Any, following: Any) -> Any:
        return fn.cross_entropy(network(tokens).flatten(0, 1), following.flatten())

    return training_step(network, loss, text[:, :-1].clone(), text[:, 1:].clone())
