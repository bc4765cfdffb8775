#!/usr/bin/env python3
# What PyTorch gives, in double precision, for the programs of `net --torch FOLDER`: values and gradients, as the lines of
# tests/net/goldens.txt (seed, hash of the text, tensor, sum of x[k] cos(k), sum of |x[k]|).  Needed only to make them again:
#
#   mkdir /tmp/programs && build/release/tests/net --torch /tmp/programs --seed 1 --count 620
#   python3 tests/net/goldens.py /tmp/programs > tests/net/goldens.txt        (PyTorch 1.13 or later on the CPU)
#
# With --scans, and --count 150, these are the lines of goldens_scans.txt.
#
# The functions below carry the names of the language and are written from docs/language.md.
import builtins, glob, math, os, sys
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
true, false, none = True, False, None
env = None


class Env:
    def __init__(self, data, training):
        self.data, self.training, self.params = data, training, {}

    def input(self, k):
        return self.data[f"v{k}"]

    def param(self, path):
        self.params[path] = self.data[path]
        return self.data[path]


def T(x):
    return x if torch.is_tensor(x) else torch.tensor(float(x))


def both(a, b):
    if torch.is_tensor(a) and a.dtype == torch.int32 and not torch.is_tensor(b):
        return a, torch.tensor(b, dtype=torch.int32)
    if torch.is_tensor(b) and b.dtype == torch.int32 and not torch.is_tensor(a):
        return torch.tensor(a, dtype=torch.int32), b
    return T(a), T(b)


# ---- pointwise
def abs(x): return torch.abs(T(x))
def sign(x): return torch.sign(T(x)).detach()
def exp(x): return torch.exp(T(x))
def log(x): return torch.log(T(x))
def log1p(x): return torch.log1p(T(x))
def sqrt(x): return torch.sqrt(T(x))
def rsqrt(x): return torch.rsqrt(T(x))
def sin(x): return torch.sin(T(x))
def cos(x): return torch.cos(T(x))
def tanh(x): return torch.tanh(T(x))
def sigmoid(x): return torch.sigmoid(T(x))
def erf(x): return torch.erf(T(x))
def floor(x): return torch.floor(T(x)).detach()
def ceil(x): return torch.ceil(T(x)).detach()
def stop_gradient(x): return T(x).detach()
def relu(x): return torch.relu(x)
def leaky_relu(x, slope): return F.leaky_relu(x, slope)
def elu(x, alpha): return where(x > 0, x, alpha * (exp(min(x, 0.0)) - 1))
def silu(x): return F.silu(x)
def softplus(x): return torch.logaddexp(x, torch.zeros_like(x))
def logsigmoid(x): return -softplus(-x)
def gelu(x, form="erf"): return F.gelu(x, approximate="none" if form == "erf" else "tanh")
def clamp(x, lo, hi): return min(max(x, T(lo)), T(hi))
def huber(d, delta): return where(abs(d) <= delta, 0.5 * d * d, delta * (abs(d) - 0.5 * delta))
def tofloat(x): return x.double()
def toint(x): return torch.clamp(torch.trunc(x.detach()), -2147483648, 2147483647).to(torch.int32)
def zeros_like(x): return zeros(x.shape)
def ones_like(x): return ones(x.shape)
def zeros(s): return torch.zeros(s).requires_grad_()  # a derivative may be taken by a constant
def ones(s): return torch.ones(s).requires_grad_()


def where(c, a, b):
    a, b = both(a, b)
    return torch.where(c if torch.is_tensor(c) else torch.tensor(c), a, b)


def idiv(a, b):
    a, b = both(a, b)
    return torch.where(b == 0, torch.zeros_like(a), torch.div(a, torch.where(b == 0, torch.ones_like(b), b), rounding_mode="floor"))


def imod(a, b):
    a, b = both(a, b)
    return torch.where(b == 0, torch.zeros_like(a), torch.remainder(a, torch.where(b == 0, torch.ones_like(b), b)))


def mm(a, b):
    y = torch.matmul(a, b)
    return y if y.requires_grad else y.requires_grad_()


# ---- reductions: the first extremum has the gradient
def axes_last(x, axis):
    axis = [axis % x.dim()] if isinstance(axis, int) else list(axis)
    rest = [d for d in range(x.dim()) if d not in axis]
    shape = [x.shape[d] for d in rest]
    n = math.prod(x.shape[d] for d in axis)
    return x.permute(rest + axis).reshape(shape + [n]), [1 if d in axis else x.shape[d] for d in range(x.dim())]


def masked(x, where, neutral):
    return x if where is None else torch.where(where, x, torch.tensor(neutral, dtype=x.dtype))


def first_most(x):
    if x.numel() == 0:
        return torch.zeros(list(x.shape[:-1]) + [1], dtype=torch.int64)
    most = x.detach().amax(-1, keepdim=True)
    place = torch.where(x.detach() == most, torch.arange(x.shape[-1]), x.shape[-1]).amin(-1, keepdim=True)
    return place


def most(x, axis, keep, where, up):
    low = -math.inf if x.dtype == torch.float64 else -2147483648
    neutral = low if up else (math.inf if x.dtype == torch.float64 else 2147483647)
    y, kept = axes_last(masked(x, where, neutral), axis)
    if y.shape[-1] == 0:
        y = torch.cat([y, torch.full(list(y.shape[:-1]) + [1], neutral, dtype=y.dtype)], -1)
    y = y.gather(-1, first_most(y if up else -y)).squeeze(-1)
    return y.reshape(kept) if keep else y


def max(x, y=None, axis=None, keep=False, where=None):
    if axis is not None:
        return most(x, axis, keep, where, True)
    a, b = both(x, y)
    return torch.where(a >= b, a, b)


def min(x, y=None, axis=None, keep=False, where=None):
    if axis is not None:
        return most(x, axis, keep, where, False)
    a, b = both(x, y)
    return torch.where(a <= b, a, b)


def argmax(x, axis, keep=False, where=None):
    y, kept = axes_last(masked(x, where, -math.inf if x.dtype == torch.float64 else -2147483648), axis)
    y = first_most(y).squeeze(-1).to(torch.int32)
    return y.reshape(kept) if keep else y


def sum(x, axis, keep=False, where=None):
    y, kept = axes_last(masked(x, where, 0), axis)
    y = y.sum(-1, dtype=x.dtype)
    return y.reshape(kept) if keep else y


def prod(x, axis, keep=False, where=None):
    y, kept = axes_last(masked(x, where, 1), axis)
    r = torch.ones(y.shape[:-1], dtype=x.dtype)
    for k in range(y.shape[-1]):
        r = r * y[..., k]
    return r.reshape(kept) if keep else r


def mean(x, axis, keep=False, where=None):
    y, kept = axes_last(masked(x, where, 0), axis)
    n = y.shape[-1] if where is None else torch.clamp(axes_last(torch.broadcast_to(where, x.shape).double(), axis)[0].sum(-1), min=1)
    y = y.sum(-1) / n
    return y.reshape(kept) if keep else y


def variance(x, axis, keep=False, where=None):
    d = x - mean(x, axis, True, where)
    return mean(d * d, axis, keep, where)


def softmax(x, axis):
    y = exp(x - most(x, axis, True, None, True).detach().clamp(min=-3e38))
    return y / sum(y, axis, True).clamp(min=1e-30)


def logsumexp(x, axis, keep=False):
    m = most(x, axis, True, None, True).detach()
    r = m + log(sum(exp(x - m), axis, True))
    return r if keep else r.reshape([n for d, n in enumerate(x.shape) if d not in (axis if isinstance(axis, list) else [axis % x.dim()])])


def log_softmax(x, axis): return x - logsumexp(x, axis, True)


def scan(x, axis, reverse, exclusive, op, start):
    x = x.flip(axis) if reverse else x
    y = op(x, axis)
    if exclusive and x.shape[axis]:
        y = torch.cat([torch.full_like(x.narrow(axis, 0, 1), start), y.narrow(axis, 0, x.shape[axis] - 1)], axis)
    return y.flip(axis) if reverse else y


def cumsum(x, axis, reverse, exclusive): return scan(x, axis, reverse, exclusive, torch.cumsum, 0.0)
def cumprod(x, axis, reverse, exclusive): return scan(x, axis, reverse, exclusive, torch.cumprod, 1.0)


# ---- shapes
def transpose(x, perm=None): return x.transpose(-1, -2) if perm is None else x.permute(perm)
def reshape(x, s): return x.reshape(s)
def expand_dims(x, axis): return x.unsqueeze(axis)
def concat(*xs, axis): return torch.cat(xs, axis)
def split(x, sizes, axis): return torch.split(x, sizes, axis)
def reverse(x, axis): return x.flip(axis)
def broadcast(x, s): return torch.broadcast_to(x, s)


def pad(x, pairs, value):
    return F.pad(x, [n for pair in reversed(pairs) for n in pair], value=value)


def ix(x, *subscripts):
    for d, (start, count, step) in reversed(list(enumerate(subscripts))):
        x = x.select(d, start) if step == 0 else x.index_select(d, torch.tensor([start + k * step for k in range(count)], dtype=torch.int64))
    return x


def gather(x, ids, axis):
    n = x.shape[axis]
    inside = (ids >= 0) & (ids < n)
    flat = torch.cat([x, torch.zeros_like(x.narrow(axis, 0, 1)) if n else torch.zeros([1 if d == axis else k for d, k in enumerate(x.shape)], dtype=x.dtype)], axis)
    place = torch.where(inside, ids, n).reshape(-1).long()
    return flat.index_select(axis, place).reshape(list(x.shape[:axis]) + list(ids.shape) + list(x.shape[axis + 1:]))


def mixed(x, by, *subscripts):
    for d, (start, count, step) in reversed(list(enumerate(subscripts))):
        if step != 99:
            x = ix(x, *[(0, n, 1) if k != d else (start, count, step) for k, n in enumerate(x.shape)])
    return gather(x, by, builtins.sum(step != 0 for _, _, step in subscripts[:[s[2] for s in subscripts].index(99)]))


def rslice(x, start, length): return gather(x, torch.arange(length) + start, 0)


def update(x, part, start):
    k = torch.arange(x.shape[0]) - start
    inside = ((k >= 0) & (k < part.shape[0])).reshape([-1] + [1] * (x.dim() - 1))
    return torch.where(inside, gather(part, k, 0), x)


def iota(n, axis, rank): return torch.arange(n, dtype=torch.int32).reshape([n if d == axis else 1 for d in range(rank)])
def one_hot(ids, n): return (ids.unsqueeze(-1) == torch.arange(n)).double()


# ---- layers
def linear(x, n, bias, path):
    y = torch.matmul(x, env.param(path + ".w"))
    return y + env.param(path + ".b") if bias else y


def whitened(x, axis): return x * rsqrt(mean(x * x, axis, True) + 1e-5)
def centred(x, axis): return x - mean(x, axis, True)
def affine(x, path): return x * env.param(path + ".gamma") + env.param(path + ".beta")
def layernorm(x, path): return affine(whitened(centred(x, -1), -1), path)
def rmsnorm(x, path): return whitened(x, -1) * env.param(path + ".gamma")


def batchnorm(x, path):
    axes = list(range(x.dim() - 1))
    return affine(whitened(centred(x, axes), axes) if env.training else x * rsqrt(torch.tensor(1 + 1e-5)), path)


def groupnorm(x, groups, path):
    y = x.reshape(x.shape[0], -1, groups, x.shape[-1] // groups)
    return affine(whitened(centred(y, [1, 3]), [1, 3]).reshape(x.shape), path)


def window_pads(n, span, stride, padding):
    if padding == "same" or padding == "reflect":
        reach = builtins.max(0, ((n + stride - 1) // stride - 1) * stride + span - n)
        return [reach // 2, reach - reach // 2]
    return [0, 0] if padding == "valid" else [padding, padding]


def padded(x, span, stride, padding, value=0.0):
    pads = window_pads(x.shape[3], span, stride, padding) + window_pads(x.shape[2], span, stride, padding)
    return F.pad(x, pads, mode="reflect") if padding == "reflect" else F.pad(x, pads, value=value)


def conv2d(x, n, k, stride, dilation, groups, padding, bias, path):
    w = env.param(path + ".w").permute(3, 2, 0, 1).contiguous()
    y = F.conv2d(padded(x.permute(0, 3, 1, 2).contiguous(), (k - 1) * dilation + 1, stride, padding), w, stride=stride, dilation=dilation, groups=groups).permute(0, 2, 3, 1)
    return y + env.param(path + ".b") if bias else y


def conv_transpose2d(x, n, k, stride, padding, bias, path):
    w = env.param(path + ".w").permute(2, 3, 0, 1).contiguous()
    y = F.conv_transpose2d(x.permute(0, 3, 1, 2).contiguous(), w, stride=stride).permute(0, 2, 3, 1)
    y = y[:, padding:y.shape[1] - padding, padding:y.shape[2] - padding]
    return y + env.param(path + ".b") if bias else y


def pooled(x, k, stride, padding, value):
    x = padded(x.permute(0, 3, 1, 2), k, stride, padding, value)
    return x.unfold(2, k, stride).unfold(3, k, stride).permute(0, 2, 3, 1, 4, 5)


def max_pool2d(x, k, stride, padding): return max(pooled(x, k, stride, padding, -math.inf), axis=[4, 5])
def avg_pool2d(x, k, stride, padding): return pooled(x, k, stride, padding, 0.0).sum([4, 5]) / pooled(torch.ones_like(x), k, stride, padding, 0.0).sum([4, 5])
def embed(ids, rows, n, path): return gather(env.param(path + ".w"), ids, 0)


def self_attention(x, heads, causal, path):
    b, t, c = x.shape
    q, k, v = linear(x, 3 * c, True, path + ".qkv").reshape(b, t, 3, heads, c // heads).permute(2, 0, 3, 1, 4)
    s = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(c / heads)
    if torch.is_tensor(causal):
        s = s.masked_fill(~causal, -math.inf)
    elif causal:
        s = s.masked_fill(torch.ones(t, t).triu(1).bool(), -math.inf)
    y = torch.matmul(softmax(s, -1), v).permute(0, 2, 1, 3).reshape(b, t, c)
    return linear(y, c, True, path + ".proj")


def cross_entropy(z, labels, ignore):
    picked = (z * one_hot(labels, z.shape[-1])).sum(-1)
    y = logsumexp(z, -1) - picked
    return y if ignore is None else torch.where(labels == ignore, torch.zeros_like(y), y)


def flatten(x): return x.reshape(x.shape[0], -1)
def to_heads(x, h): return x.reshape(x.shape[0], x.shape[1], h, -1).transpose(1, 2) if x.numel() else x.reshape(x.shape[0], h, x.shape[1], x.shape[2] // h)
def from_heads(x): return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])
def causal(t): return torch.ones(t, t).tril().bool()


def convolve(x, k, oh, ow, ph, pw, stride, dilation):
    wide = [(n - 1) * stride + (m - 1) * dilation + 1 for n, m in ((oh, k.shape[0]), (ow, k.shape[1]))]
    after = [builtins.max(0, w - n - p) for w, n, p in zip(wide, x.shape[1:3], (ph, pw))]
    y = F.pad(x.permute(0, 3, 1, 2), [pw, after[1], ph, after[0]])[:, :, :wide[0], :wide[1]].contiguous()
    return F.conv2d(y, k.permute(3, 2, 0, 1).contiguous(), stride=stride, dilation=dilation).permute(0, 2, 3, 1)


def mse(a, b): return ((a - b) ** 2).mean()


def loop(x, y, count, form, path):
    for k in range(count):
        if form == 0:
            x = sin(x) + y
        elif form == 1:
            x, y = y, 0.5 * x + y
        elif form == 2:
            x = x * env.param(f"{path}.{k}.w") + y
        else:
            x = tanh(linear(x, x.shape[-1], True, f"{path}.{k}.up")) + y
    return x


# ---- scans
def tensor(x): return torch.tensor(x) if isinstance(x, (bool, float)) else torch.tensor(x, dtype=torch.int32)
def becomes(x, first): return torch.broadcast_to(T(x), first.shape)
def last(x, axis): return x.select(axis, -1) if x.shape[axis] else torch.zeros_like(x.sum(axis)).to(x.dtype)


def stacked(rounds, k, axis, kind, shape):
    dtype = {"f": torch.float64, "i": torch.int32, "b": torch.bool}[kind]
    return torch.stack([T(r[k]) for r in rounds], axis) if rounds else torch.zeros(shape, dtype=dtype)


# ---- derivatives
def pulled(y, x, u):
    if not y.requires_grad or not x.requires_grad:
        return torch.zeros_like(x)
    g, = torch.autograd.grad(y, x, u, create_graph=True, allow_unused=True)
    return torch.zeros_like(x) if g is None else g


def vjp(y, x, u): return pulled(y, x, torch.broadcast_to(T(u), y.shape))


def jvp(y, x, v):
    w = torch.zeros_like(y).requires_grad_()
    g = pulled(y, x, w)
    return pulled(g, w, torch.broadcast_to(T(v), x.shape))


def jacobian(y, x, batch=None):
    lead = y.shape[:1] if batch is not None else ()
    per = y.shape[1:] if batch is not None else y.shape
    rows = []
    for k in range(math.prod(per)):
        u = torch.zeros(per).reshape(-1)
        u[k] = 1
        rows.append(pulled(y, x, torch.broadcast_to(u.reshape(per), y.shape)))
    if not rows:
        return torch.zeros(list(y.shape) + list(x.shape[len(lead):]))
    return torch.stack(rows, len(lead)).reshape(list(y.shape) + list(x.shape[len(lead):]))


# ---- indexed definitions
class Outside(Exception):
    pass


depth = 0


def rd(x, *at):
    if any(i is None or i < 0 or i >= n for i, n in zip(at, x.shape)):
        if depth:
            raise Outside
        return torch.tensor(0.0)
    return x[at]


def ids(x, i): return int(x[i])
def quotient(a, b): return None if a % b else a // b


def places(ranges):
    if not ranges:
        yield []
        return
    for i in range(*ranges[0]):
        for rest in places(ranges[1:]):
            yield [i] + rest


def indexed(ranges, body):
    values = [T(body(*at)) for at in places(ranges)]
    shape = [hi for _, hi in ranges]
    return torch.stack(values).reshape(shape) if values else torch.zeros(shape)


def reduced(kind, ranges, body):
    global depth
    total = None
    depth += 1
    for at in places(ranges):
        try:
            term = T(body(*at))
        except Outside:
            continue
        if total is None:
            total = term
        else:
            total = {"sum": lambda: total + term, "prod": lambda: total * term, "max": lambda: max(total, term), "min": lambda: min(total, term)}[kind]()
    depth -= 1
    return T({"sum": 0, "prod": 1, "max": -math.inf, "min": math.inf}[kind]) if total is None else total


# ---- one program
def read_data(path):
    data, lines = {}, open(path).read().split("\n")
    for head, body in zip(lines[0::2], lines[1::2]):
        name, kind, *shape = head.split()
        dtype = {"f": torch.float64, "i": torch.int32, "b": torch.bool}[kind]
        data[name] = torch.tensor([float(x) for x in body.split()]).to(dtype).reshape([int(n) for n in shape])
        if kind == "f":
            data[name].requires_grad_()
    return data


def golden(seed, text, name, x):
    x = x.detach().reshape(-1).double()
    waves = (x * torch.cos(torch.arange(len(x)).double())).sum().item()
    print(f"{seed} {text} {name} {waves:.14g} {x.abs().sum().item():.14g}")


def evaluate(folder, seed):
    global env
    space = dict(globals(), step=1.0, inf=math.inf)
    exec(open(f"{folder}/{seed}.py").read(), space)
    env = space["env"] = Env(read_data(f"{folder}/{seed}.data"), space["training"])
    values, loss = space["program"](env)
    for name, x in values.items():
        golden(seed, space["text"], name, x)
    for path, p in env.params.items() if loss is not None else ():
        golden(seed, space["text"], "grad/" + path, vjp(loss, p, 1.0))


def main():
    folder = sys.argv[1]
    for path in sorted(glob.glob(folder + "/*.py"), key=lambda p: int(os.path.basename(p)[:-3])):
        try:
            evaluate(folder, os.path.basename(path)[:-3])
        except Exception as e:
            print(f"{path}: {e!r}", file=sys.stderr)


main()
