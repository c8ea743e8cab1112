"""What do residual networks ask for? ResNets of basic blocks, as published for CIFAR-10.

He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition (2016), section 4.2: a
convolution, then three stages of n blocks at widths 16, 32 and 64, 6n + 2 layers in all, with
shortcuts that have no parameters. ResNet-32 has the batch and the images of the DTR paper
(Kirisame et al. 2021): 56 x 3 x 224 x 224.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as fn
from torch import nn

from dtrdiag.instrumentation.pytorch.step import Step
from dtrdiag.instrumentation.zoo.registry import model, training_step


class BasicBlock(nn.Module):  # type: ignore[misc]
    """Two 3x3 convolutions beside a shortcut: (N, before, H, W) to (N, after, H/stride, W/stride).

    ReLU works in place, as it does in most ResNets. Where shapes differ, the shortcut takes every
    other pixel and appends channels of zeros.
    """

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.added = after - before
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        """The block's output, of the shape that the class says."""
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        if self.stride != 1:
            x = x[:, :, :: self.stride, :: self.stride]
        if self.added:
            x = fn.pad(x, (0, 0, 0, 0, 0, self.added))
        y += x
        return self.relu(y)


class ResNet(nn.Module):  # type: ignore[misc]
    """Images (N, 3, H, W) to scores (N, classes).

    Args:
        depth: number of layers with weights on the longest path, 6n + 2.
        width: channels of the first stage.
        classes: number of classes.
    """

    def __init__(self, depth: int, width: int, classes: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        blocks = []
        before = width
        for stage in range(3):
            for block in range((depth - 2) // 6):
                after = width << stage
                blocks.append(BasicBlock(before, after, 2 if stage and not block else 1))
                before = after
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(before, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Any) -> Any:
        """Scores (N, classes)."""
        x = self.blocks(self.relu(self.norm(self.conv(images))))
        return self.head(x.mean((2, 3)))


def _resnet(depth: int, batch: int, image: int, width: int, classes: int) -> Step:
    network = ResNet(depth, width, classes)
    images = torch.randn(batch, 3, image, image)
    labels = torch.randint(classes, (batch,))
    return training_step(network, lambda x, y: fn.cross_entropy(network(x), y), images, labels)


@model("resnet-32", small={"batch": 4, "image": 32})
def resnet_32(batch: int = 56, image: int = 224, width: int = 16, classes: int = 10) -> Step:
    """ResNet-32 of basic blocks, batch norm and in-place ReLU, on 56 x 3 x 224 x 224.

    Args:
        batch: number of images.
        image: their height and width.
        width: channels of the first stage.
        classes: number of classes.
    """
    return _resnet(32, batch, image, width, classes)


@model("resnet-20", small={"batch": 8})
def resnet_20(batch: int = 128, image: int = 32, width: int = 16, classes: int = 10) -> Step:
    """ResNet-20 for CIFAR-10: the same blocks, fewer, at 128 x 3 x 32 x 32.

    Args:
        batch: number of images.
        image: their height and width.
        width: channels of the first stage.
        classes: number of classes.
    """
    return _resnet(20, batch, image, width, classes)
