"""What does a recurrent network ask for? An LSTM that classifies sequences, unrolled over time.

Hochreiter, Schmidhuber: Long Short-Term Memory (1997). One cell after the other, as in the DTR
paper's LSTM: many small operators in a chain as long as the sequence.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as fn
from torch import nn

from dtrdiag.instrumentation.pytorch.step import Step
from dtrdiag.instrumentation.zoo.registry import model, training_step


class Unrolled(nn.Module):  # type: ignore[misc]
    """Sequences (N, T, features) to scores (N, classes), from the last hidden state.

    `nn.LSTMCell` is four gates (N, 4 * hidden) in one pair of linear maps, cut in four views that
    the activations overwrite: no fused operator hides the steps.
    """

    def __init__(self, features: int, hidden: int, layers: int, classes: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.cells = nn.ModuleList(
            nn.LSTMCell(features if layer == 0 else hidden, hidden) for layer in range(layers)
        )
        self.head = nn.Linear(hidden, classes)

    def forward(self, sequences: Any) -> Any:
        """Scores (N, classes)."""
        steps = sequences.unbind(1)
        start = steps[0].new_zeros(len(sequences), self.hidden)
        states = [(start, start) for _ in self.cells]
        for x in steps:
            for layer, cell in enumerate(self.cells):
                states[layer] = cell(x, states[layer])
                x = states[layer][0]
        return self.head(states[-1][0])


@model("lstm", small={"batch": 4, "length": 12, "features": 16, "hidden": 32})
def lstm(
    batch: int = 128,
    length: int = 128,
    features: int = 512,
    hidden: int = 512,
    layers: int = 1,
    classes: int = 10,
) -> Step:
    """LSTM classifier, its cell unrolled over 128 steps.

    Args:
        batch: number of sequences.
        length: steps of a sequence.
        features: of the input at each step.
        hidden: features of the state.
        layers: cells on top of each other.
        classes: number of classes.
    """
    network = Unrolled(features, hidden, layers, classes)
    sequences = torch.randn(batch, length, features)
    labels = torch.randint(classes, (batch,))
    return training_step(network, lambda x, y: fn.cross_entropy(network(x), y), sequences, labels)
