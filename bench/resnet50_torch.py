"""A training step of ResNet-50 in PyTorch on the CPU, one per line of standard input; prints its seconds.

resnet50_torch.py BATCH SIZE THREADS.  The model of examples/resnet50/resnet50.dsl (1.5: the stride in the 3x3
convolution), momentum 0.9, one random batch, f32, in the memory format in which a step is faster here.  With one
thread, the seconds are the processor's."""
import sys

import torch
from torch import nn

from torch_step import serve, trainer

batch, size, threads = (int(x) for x in sys.argv[1:4])
torch.set_num_threads(threads)


def conv_norm(inputs, outputs, span, stride=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, span, stride, span // 2, bias=False), nn.BatchNorm2d(outputs)
    )


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.a = conv_norm(inputs, width, 1)
        self.b = conv_norm(width, width, 3, stride)
        self.c = conv_norm(width, 4 * width, 1)
        same = stride == 1 and inputs == 4 * width
        self.shortcut = nn.Identity() if same else conv_norm(inputs, 4 * width, 1, stride)

    def forward(self, x):
        y = torch.relu_(self.a(x))
        y = torch.relu_(self.b(y))
        return torch.relu_(self.c(y).add_(self.shortcut(x)))


def resnet50():
    layers = [conv_norm(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, stride if block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def in_format(memory_format):
    model = resnet50().train().to(memory_format=memory_format)
    image = torch.rand(batch, 3, size, size).mul_(2).sub_(1).contiguous(memory_format=memory_format)
    label = torch.randint(0, 1000, (batch,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return trainer("resnet50_torch", threads, optimizer, lambda: nn.functional.cross_entropy(model(image), label))


torch.manual_seed(1)
serve("resnet50_torch", {name: in_format(getattr(torch, name)) for name in ("contiguous_format", "channels_last")})
