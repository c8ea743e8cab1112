"""What does a diffusion model ask for? A U-Net with time embeddings and attention, fed with noise.

Ho, Jain, Abbeel: Denoising Diffusion Probabilistic Models (2020), the network and the loss for
CIFAR-10: widths 128, 256, 256, 256, two residual blocks a level, attention at 16 x 16, 35.7 M.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as fn
from torch import nn

from dtrdiag.instrumentation.pytorch.step import Step
from dtrdiag.instrumentation.zoo.registry import model, multiple, training_step

TIMES = 1000
"""Steps of the diffusion; the noise grows linearly from 0.0001 to 0.02 a step."""
MULTIPLES = (1, 2, 2, 2)
"""Channels of each level, in multiples of the width."""
ATTENDING = 1
"""The level that has attention: height and width are halved once."""


class ResidualBlock(nn.Module):  # type: ignore[misc]
    """Images (N, before, H, W) and times (N, 4 * width) to images (N, after, H, W)."""

    def __init__(self, before: int, after: int, groups: int, time: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, before)
        self.conv1 = nn.Conv2d(before, after, 3, padding=1)
        self.time = nn.Linear(time, after)
        self.norm2 = nn.GroupNorm(groups, after)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1)
        self.shortcut = nn.Identity() if before == after else nn.Conv2d(before, after, 1)

    def forward(self, x: Any, time: Any) -> Any:
        """The block's output; the time is added to every pixel."""
        y = self.conv1(fn.silu(self.norm1(x)))
        y = y + self.time(fn.silu(time))[:, :, None, None]
        y = self.conv2(self.dropout(fn.silu(self.norm2(y))))
        return y + self.shortcut(x)


class PixelAttention(nn.Module):  # type: ignore[misc]
    """Single-head attention among the pixels of an image, (N, C, H, W) to the same, residual."""

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        self.project_in = nn.Conv2d(channels, 3 * channels, 1)
        self.project_out = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Any, _: Any) -> Any:
        """What each pixel gathers, added to it; the time is not looked at."""
        batch, channels, height, width = x.shape
        query, key, value = self.project_in(self.norm(x)).flatten(2).chunk(3, 1)
        odds = fn.softmax(query.transpose(1, 2) @ key / math.sqrt(channels), -1)
        mixed = value @ odds.transpose(1, 2)
        return x + self.project_out(mixed.view(batch, channels, height, width))


class Shrink(nn.Module):  # type: ignore[misc]
    """Halves height and width by a strided convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, stride=2, padding=1)

    def forward(self, x: Any, _: Any) -> Any:
        """(N, C, H, W) to (N, C, H/2, W/2); the time is not looked at."""
        return self.conv(x)


class Grow(nn.Module):  # type: ignore[misc]
    """Doubles height and width by repetition and a convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Any, _: Any) -> Any:
        """(N, C, H, W) to (N, C, 2H, 2W); the time is not looked at."""
        return self.conv(fn.interpolate(x, scale_factor=2.0, mode="nearest"))


class Stage(nn.ModuleList):  # type: ignore[misc]
    """Parts one after the other, each of which is told the time."""

    def forward(self, x: Any, time: Any) -> Any:
        """The last part's output."""
        for part in self:
            x = part(x, time)
        return x


class Denoiser(nn.Module):  # type: ignore[misc]
    """Noisy images (N, 3, H, W) at times (N,) to the noise that is in them, (N, 3, H, W).

    Args:
        width: channels of the first level, a multiple of the groups and of 4.
        blocks: residual blocks of a level on the way down; one more on the way up.
        groups: of the group norms.
        dropout: probability within residual blocks.
    """

    def __init__(self, width: int, blocks: int, groups: int, dropout: float) -> None:
        super().__init__()
        self.parts = (groups, 4 * width, dropout)
        self.time = nn.Sequential(
            nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width)
        )
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        last = len(MULTIPLES) - 1
        kept, channels = [width], width
        for level, times in enumerate(MULTIPLES):
            for _ in range(blocks):
                self.down.append(self._stage(level, channels, times * width))
                channels = times * width
                kept.append(channels)
            if level != last:
                self.down.append(Stage([Shrink(channels)]))
                kept.append(channels)
        self.middle = self._stage(ATTENDING, channels, channels)
        self.middle.append(ResidualBlock(channels, channels, *self.parts))
        for level, times in reversed(list(enumerate(MULTIPLES))):
            for block in range(blocks + 1):
                stage = self._stage(level, channels + kept.pop(), times * width)
                channels = times * width
                if block == blocks and level:
                    stage.append(Grow(channels))
                self.up.append(stage)
        self.leave = nn.Sequential(
            nn.GroupNorm(groups, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1)
        )
        scales = torch.exp(torch.arange(width // 2) * (-math.log(10_000) / (width // 2 - 1)))
        self.register_buffer("frequencies", scales, persistent=False)
        signal = (1 - torch.linspace(1e-4, 0.02, TIMES)).cumprod(0)
        self.register_buffer("signal", signal, persistent=False)

    def _stage(self, level: int, before: int, after: int) -> Stage:
        stage = Stage([ResidualBlock(before, after, *self.parts)])
        if level == ATTENDING:
            stage.append(PixelAttention(after, self.parts[0]))
        return stage

    def noisy(self, images: Any, noise: Any, times: Any) -> Any:
        """Images after as many steps of diffusion as their times say."""
        signal = self.signal[times][:, None, None, None]
        return signal.sqrt() * images + (1 - signal).sqrt() * noise

    def forward(self, images: Any, times: Any) -> Any:
        """The noise, (N, 3, H, W)."""
        angles = times[:, None] * self.frequencies
        time = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        x = self.enter(images)
        waiting = [x]
        for stage in self.down:
            x = stage(x, time)
            waiting.append(x)
        x = self.middle(x, time)
        for stage in self.up:
            x = stage(torch.cat([x, waiting.pop()], 1), time)
        return self.leave(x)


@model("diffusion", small={"batch": 2, "image": 8, "width": 16, "blocks": 1, "groups": 4})
def diffusion(
    batch: int = 32,
    image: int = 32,
    width: int = 128,
    blocks: int = 2,
    groups: int = 32,
    dropout: float = 0.1,
) -> Step:
    """Denoising diffusion: a U-Net with time embeddings, attention, group norm and dropout.

    The noise and the times are inputs, so that each step has the same ones.

    Args:
        batch: number of images.
        image: their height and width, a multiple of 8.
        width: channels of the first level.
        blocks: residual blocks of a level.
        groups: of the group norms, a divisor of the width.
        dropout: probability; 0 for none.
    """
    multiple("image", image, 1 << (len(MULTIPLES) - 1))
    multiple("width", width, 4)
    multiple("width", width, groups)
    network = Denoiser(width, blocks, groups, dropout)
    images = torch.randn(batch, 3, image, image)
    noise = torch.randn(batch, 3, image, image)
    times = torch.randint(TIMES, (batch,))

    def loss(images: Any, noise: Any, times: Any) -> Any:
        return fn.mse_loss(network(network.noisy(images, noise, times), times), noise)

    return training_step(network, loss, images, noise, times)
