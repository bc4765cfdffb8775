"""A training step of one program of bench/host in PyTorch on the CPU, one per line of standard input; prints its seconds.

host_torch.py CASE THREADS [NAME=VALUE ..], the names being those of the program's dims.  Plain SGD, f32, random inputs; of several
ways to write the same the one whose step is fastest here.  With one thread, the seconds are the processor's."""
import sys
import warnings

import torch
from torch import nn
from torch.nn import functional as F

from torch_step import serve, trainer

warnings.filterwarnings("ignore")
case, threads = sys.argv[1], int(sys.argv[2])
dims = dict(given.split("=") for given in sys.argv[3:])
torch.set_num_threads(threads)


def dim(name, otherwise):
    return int(dims.get(name, otherwise))


def param(*shape, scale=1.0):
    return nn.Parameter(torch.randn(*shape) * scale)


def attention():
    t = dim("T", 1024)
    p = [param(1, 8, t, 64) for _ in range(3)]
    yield "sdpa", p, lambda: F.scaled_dot_product_attention(*p, is_causal=True).square().mean()


def layernorm():
    x, gamma, beta, u = param(4096, 1024), nn.Parameter(torch.ones(1024)), nn.Parameter(torch.zeros(1024)), torch.rand(4096, 1024)
    yield "layer_norm", [x, gamma, beta], lambda: (F.layer_norm(x, (1024,), gamma, beta) * u).mean()


def max_pool():
    for layout in (torch.contiguous_format, torch.channels_last):
        x = nn.Parameter(torch.randn(8, 64, 112, 112).contiguous(memory_format=layout))
        u = torch.rand(8, 64, 56, 56).contiguous(memory_format=layout)
        yield str(layout), [x], lambda x=x, u=u: (F.max_pool2d(x, 3, 2, 1) * u).mean()


def gather():
    r = dim("R", 10000)
    ids, u = torch.randint(0, r, (1000000,)), torch.rand(1000000, 16)
    for sparse in (False, True):
        table = param(r, 16)
        yield f"sparse={sparse}", [table], lambda table=table, sparse=sparse: (F.embedding(ids, table, sparse=sparse) * u).mean()
    other = param(r, 16)
    yield "index_select", [other], lambda: (other.index_select(0, ids) * u).mean()


def embedding_bag():
    r = dim("R", 10000)
    ids, u = torch.randint(0, r, (125000, 8)), torch.rand(125000, 16)
    for sparse in (False, True):
        table = param(r, 16)
        yield f"sparse={sparse}", [table], lambda table=table, sparse=sparse: (
            F.embedding_bag(ids, table, mode="sum", sparse=sparse) * u).mean()


def scatter():
    r = dim("R", 10000)
    ids, u, x = torch.randint(0, r, (1000000,)), torch.rand(r, 16), param(1000000, 16)
    across = ids.unsqueeze(1).expand(-1, 16)
    yield "index_add", [x], lambda: (torch.zeros(r, 16).index_add(0, ids, x) * u).mean()
    yield "scatter_add", [x], lambda: (torch.zeros(r, 16).scatter_add(0, across, x) * u).mean()


def dlrm():
    b, r = dim("B", 2048), dim("R", 100000)
    dense, ids, click = torch.rand(b, 13), torch.randint(0, r, (8, b)), torch.randint(0, 2, (b,)).float()
    for sparse in (False, True):
        bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 16), nn.ReLU())
        top = nn.Sequential(nn.Linear(97, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))
        tables = [param(r, 16, scale=0.01) for _ in range(8)]

        def loss(bottom=bottom, top=top, tables=tables, sparse=sparse):
            x = bottom(dense)
            rows = torch.stack([x] + [F.embedding(ids[t], tables[t], sparse=sparse) for t in range(8)], 1)
            pairs = torch.bmm(rows, rows.transpose(1, 2)).flatten(1)
            return F.binary_cross_entropy_with_logits(top(torch.cat([x, pairs], 1)).squeeze(1), click)

        yield f"sparse={sparse}", [*bottom.parameters(), *top.parameters(), *tables], loss


def gat():
    n, e = dim("N", 10000), dim("E", 160000)
    source, to, label = torch.randint(0, n, (e,)), torch.randint(0, n, (e,)), torch.randint(0, 16, (n,))
    x = torch.rand(n, 128)
    p = []
    for inputs in (128, 64):
        p += [param(inputs, 64, scale=0.1), param(4, 16, scale=0.1), param(4, 16, scale=0.1)]
    p += [param(64, 16, scale=0.1), param(16, scale=0.0)]

    def attend(x, w, a, b):
        h = (x @ w).view(n, 4, 16)
        s = F.leaky_relu((h * a).sum(-1)[source] + (h * b).sum(-1)[to], 0.2)
        m = torch.full((n, 4), -torch.inf).index_reduce(0, to, s.detach(), "amax")
        weight = (s - m[to]).exp()
        total = torch.zeros(n, 4).index_add(0, to, weight)
        y = torch.zeros(n, 4, 16).index_add(0, to, weight.unsqueeze(-1) * h[source])
        return (y / total.clamp(min=1e-9).unsqueeze(-1)).flatten(1)

    def loss():
        h = torch.relu(attend(x, *p[0:3]))
        return F.cross_entropy(torch.relu(attend(h, *p[3:6])) @ p[6] + p[7], label)

    yield "index_add", p, loss


torch.manual_seed(1)
serve(f"host_torch: {case}", {way: trainer("host_torch", threads, torch.optim.SGD(parameters, lr=0.1), loss_of)
                              for way, parameters, loss_of in globals()[case]()})
