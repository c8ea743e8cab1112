"""What does a U-Net ask for? Features that wait for long: each level's are read again at the end.

Ronneberger, Fischer, Brox: U-Net: Convolutional Networks for Biomedical Image Segmentation (2015),
widths 64 to 1024; with padding, so that sizes halve exactly, and with batch norm, as is usual now.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as fn
from torch import nn

from dtrdiag.instrumentation.pytorch.step import Step
from dtrdiag.instrumentation.zoo.registry import model, multiple, training_step


def double_convolution(before: int, after: int) -> nn.Sequential:
    """Two 3x3 convolutions, each with batch norm and ReLU in place; height and width stay."""
    layers: list[nn.Module] = []
    for channels in (before, after):
        layers += [
            nn.Conv2d(channels, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers)


class UNet(nn.Module):  # type: ignore[misc]
    """Images (N, 3, H, W) to scores (N, classes, H, W).

    Args:
        width: channels of the first level; they double from level to level.
        levels: how often height and width are halved.
        classes: number of classes of a pixel.
    """

    def __init__(self, width: int, levels: int, classes: int) -> None:
        super().__init__()
        widths = [width << level for level in range(levels + 1)]
        self.pool = nn.MaxPool2d(2)
        self.down = nn.ModuleList(
            double_convolution(before, after)
            for before, after in zip([3, *widths], widths, strict=False)
        )
        self.widen = nn.ModuleList(
            nn.ConvTranspose2d(2 * after, after, 2, stride=2) for after in reversed(widths[:-1])
        )
        self.up = nn.ModuleList(
            double_convolution(2 * after, after) for after in reversed(widths[:-1])
        )
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, images: Any) -> Any:
        """Scores (N, classes, H, W)."""
        first, *others = self.down
        x = first(images)
        waiting = []
        for convolutions in others:
            waiting.append(x)
            x = convolutions(self.pool(x))
        for widen, convolutions in zip(self.widen, self.up, strict=True):
            x = convolutions(torch.cat([waiting.pop(), widen(x)], 1))
        return self.head(x)


@model("unet", small={"batch": 2, "image": 16, "width": 8, "levels": 2})
def unet(
    batch: int = 8, image: int = 256, width: int = 64, levels: int = 4, classes: int = 2
) -> Step:
    """U-Net of four levels that gives each pixel of an image a class.

    Args:
        batch: number of images.
        image: their height and width, a multiple of two to the power of the levels.
        width: channels of the first level.
        levels: how often height and width are halved.
        classes: number of classes.
    """
    multiple("image", image, 1 << levels)
    network = UNet(width, levels, classes)
    images = torch.randn(batch, 3, image, image)
    labels = torch.randint(classes, (batch, image, image))
    return training_step(network, lambda x, y: fn.cross_entropy(network(x), y), images, labels)
