"""What do mixtures of experts ask for? A language model in which a router picks experts per token.

Shazeer et al.: Outrageously Large Neural Networks (2017); Fedus, Zoph, Shazeer: Switch Transformers
(2022), for the capacity and the balancing loss. Each expert has room for a fixed number of tokens;
what does not fit passes by. So no shape depends on what the router says.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as fn
from torch import nn

from dtrdiag.errors import UsageError
from dtrdiag.instrumentation.pytorch.step import Step
from dtrdiag.instrumentation.zoo.layers import Block, SelfAttention
from dtrdiag.instrumentation.zoo.registry import model, training_step

BALANCE = 0.01
"""Weight of the balancing loss (Fedus et al., section 2.2)."""


class Experts(nn.Module):  # type: ignore[misc]
    """A feed-forward of several experts, (N, T, width) to (N, T, width).

    Args:
        width: features of a position.
        hidden: features within an expert.
        experts: number of experts.
        chosen: how many of them each token goes to.
        capacity: tokens that an expert has room for.
    """

    def __init__(self, width: int, hidden: int, experts: int, chosen: int, capacity: int) -> None:
        super().__init__()
        self.experts = experts
        self.chosen = chosen
        self.capacity = capacity
        self.router = nn.Linear(width, experts, bias=False)
        self.enter = nn.Parameter(torch.empty(experts, width, hidden).normal_(std=width**-0.5))
        self.leave = nn.Parameter(torch.empty(experts, hidden, width).normal_(std=hidden**-0.5))
        self.register_buffer("every_expert", torch.arange(experts), persistent=False)
        self.balance: Any = None
        """The balancing loss of the last call, for whoever adds up the loss to take."""

    def forward(self, x: Any) -> Any:
        """What the chosen experts make of each token, weighted by the router."""
        tokens = x.flatten(0, 1)
        odds = fn.softmax(self.router(tokens), -1)
        weights, choices = odds.topk(self.chosen, -1)
        taken = choices.unsqueeze(-1) == self.every_expert  # (tokens, chosen, experts)
        self.balance = self.experts * (taken.float().mean((0, 1)) * odds.mean(0)).sum()
        slots = self._slots(choices, taken)
        # One slot more than there are: what does not fit goes there, and is cut off.
        room = tokens.new_zeros(self.experts * self.capacity + 1, tokens.shape[-1])
        copies = tokens.unsqueeze(1).expand(-1, self.chosen, -1).flatten(0, 1)
        room = room.index_add(0, slots, copies)[:-1]
        room = room.view(self.experts, self.capacity, -1)
        room = torch.bmm(fn.gelu(torch.bmm(room, self.enter)), self.leave).flatten(0, 1)
        made = fn.pad(room, (0, 0, 0, 1)).index_select(0, slots)
        made = made.view(len(tokens), self.chosen, -1) * weights.unsqueeze(-1)
        return made.sum(1).view_as(x)

    def _slots(self, choices: Any, taken: Any) -> Any:
        """For each choice of each token, (tokens * chosen,), where in the room it goes."""
        flat = taken.flatten(0, 1).long()
        rank = ((flat.cumsum(0) - 1) * flat).sum(-1)
        slots = choices.flatten() * self.capacity + rank
        return slots.masked_fill(rank >= self.capacity, self.experts * self.capacity)


class MixtureModel(nn.Module):  # type: ignore[misc]
    """Tokens (N, T) to scores (N, T, vocabulary), by layers of attention and experts."""

    def __init__(
        self, length: int, layers: int, width: int, heads: int, vocabulary: int, **experts: int
    ) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(torch.zeros(length, width))
        self.mixtures = [Experts(width, **experts) for _ in range(layers)]
        self.blocks = nn.Sequential(
            *(
                Block(width, SelfAttention(width, heads, 0.0, "sdpa", length), mixture, 0.0)
                for mixture in self.mixtures
            )
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Any) -> Any:
        """Scores (N, T, vocabulary); each mixture keeps its balancing loss."""
        return self.head(self.norm(self.blocks(self.token(tokens) + self.position)))

    def balance(self) -> Any:
        """The balancing losses of the last call, taken out, summed over layers."""
        losses = [mixture.balance for mixture in self.mixtures]
        for mixture in self.mixtures:
            mixture.balance = None  # or it would live until the next step
        return torch.stack(losses).sum()


@model(
    "moe",
    small={
        "batch": 2, "length": 16, "layers": 1, "width": 32, "heads": 4, "hidden": 64, "experts": 4,
        "capacity": 20, "vocabulary": 100,
    },
)  # fmt: skip
def moe(
    batch: int = 8,
    length: int = 512,
    layers: int = 2,
    width: int = 768,
    heads: int = 12,
    hidden: int = 3072,
    experts: int = 8,
    chosen: int = 2,
    capacity: int = 1280,
    vocabulary: int = 32_000,
) -> Step:
    """Mixture of eight experts of which each token takes two, in a causal language model.

    Args:
        batch: number of sequences.
        length: tokens of a sequence.
        layers: number of layers.
        width: features of a position.
        heads: attention heads, a divisor of the width.
        hidden: features within an expert.
        experts: number of experts.
        chosen: how many each token takes, at most all.
        capacity: tokens that an expert has room for; 1280 is a quarter more than the even share.
        vocabulary: number of different tokens.
    """
    if chosen > experts:
        raise UsageError(f"chosen {chosen} is more than experts {experts}")
    network = MixtureModel(
        length, layers, width, heads, vocabulary,
        hidden=hidden, experts=experts, chosen=chosen, capacity=capacity,
    )  # fmt: skip
    text = torch.randint(vocabulary, (batch, length + 1))

    def loss(tokens: Any, following: Any) -> Any:
        scores = network(tokens).flatten(0, 1)
        return fn.cross_entropy(scores, following.flatten()) + BALANCE * network.balance()

    return training_step(network, loss, text[:, :-1].clone(), text[:, 1:].clone())
