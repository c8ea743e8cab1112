"""What does a recursive network ask for? A TreeLSTM, whose shape is a tree's and not a chain's.

Tai, Socher, Manning: Improved Semantic Representations From Tree-Structured Long Short-Term Memory
Networks (2015), the child-sum variant, on a binary tree: words at the leaves, a class at the root.
"""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as fn
from torch import nn

from dtrdiag.instrumentation.pytorch.step import Step
from dtrdiag.instrumentation.zoo.registry import model, training_step


class ChildSumCell(nn.Module):  # type: ignore[misc]
    """State (hidden, memory), each (N, hidden), of a leaf from its word or of a node from children.

    A forget gate for each child; input, output and update from the sum of their hidden states.
    """

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.word = nn.Linear(features, 3 * hidden)
        self.children_sum = nn.Linear(hidden, 3 * hidden)
        self.child = nn.Linear(hidden, hidden)

    def leaf(self, word: Any) -> tuple[Any, Any]:
        """The state of a leaf, from its word (N, features)."""
        gates, update = self._opened(self.word(word))
        memory = gates[0] * update
        return gates[1] * torch.tanh(memory), memory

    def node(self, left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
        """The state of an inner node, from the states of its two children."""
        gates, update = self._opened(self.children_sum(left[0] + right[0]))
        memory = gates[0] * update
        for hidden, kept in (left, right):
            memory = memory + torch.sigmoid(self.child(hidden)) * kept
        return gates[1] * torch.tanh(memory), memory

    def _opened(self, drive: Any) -> tuple[tuple[Any, Any], Any]:
        into, out, update = drive.chunk(3, 1)
        return (torch.sigmoid(into), torch.sigmoid(out)), torch.tanh(update)


class TreeLSTM(nn.Module):  # type: ignore[misc]
    """Words (leaves, N, features) to scores (N, classes), along one tree for the whole batch.

    Args:
        features: of a word.
        hidden: features of a state.
        classes: number of classes.
        merges: for each inner node in order, which of the states in a row to join with the next.
    """

    def __init__(self, features: int, hidden: int, classes: int, merges: list[int]) -> None:
        super().__init__()
        self.cell = ChildSumCell(features, hidden)
        self.head = nn.Linear(hidden, classes)
        self.merges = merges

    def forward(self, words: Any) -> Any:
        """Scores (N, classes), from the root."""
        row = [self.cell.leaf(word) for word in words.unbind(0)]
        for at in self.merges:
            row[at : at + 2] = [self.cell.node(row[at], row[at + 1])]
        return self.head(row[0][0])


def random_merges(leaves: int, tree: int) -> list[int]:
    """A binary tree over leaves in a row: each time two neighbours are joined, any with equal odds.

    Args:
        leaves: number of leaves.
        tree: seed; the same tree for the same seed everywhere.
    """
    # `random()` alone gives the same numbers in every version of Python.
    draw = random.Random(tree).random
    return [int(draw() * (left - 1)) for left in range(leaves, 1, -1)]


@model("treelstm", small={"batch": 4, "leaves": 8, "features": 16, "hidden": 32})
def treelstm(
    batch: int = 128,
    leaves: int = 64,
    features: int = 300,
    hidden: int = 512,
    classes: int = 5,
    tree: int = 1,
) -> Step:
    """Child-sum TreeLSTM classifier over a binary tree of 64 leaves.

    Args:
        batch: number of sentences, all of the same tree.
        leaves: words of a sentence.
        features: of a word.
        hidden: features of a state.
        classes: number of classes.
        tree: seed of the tree.
    """
    network = TreeLSTM(features, hidden, classes, random_merges(leaves, tree))
    words = torch.randn(leaves, batch, features)
    labels = torch.randint(classes, (batch,))
    return training_step(network, lambda x, y: fn.cross_entropy(network(x), y), words, labels)
