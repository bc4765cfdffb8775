#!/usr/bin/env python3
"""Writes the goldens beside this file: an independent framework's numbers for each model in *.dsl.

    pip install jax numpy safetensors && python3 make_goldens.py [NAME ..]

Every model is written here a second time, from the definitions and with JAX's own convolutions, windows, sorts and
derivatives, in float64 on float32 inputs.  A golden NAME.safetensors (NAME is FILE or FILE.MODEL) holds

    param/PATH, param/state/PATH, input/NAME      what goes in
    infer/OUTPUT                                  one call of entry infer
    grad/OUTPUT, grad/grad/PATH                   one call of entry grad
    step/OUTPUT, step/param/PATH, step/state/PATH the last of three calls of entry step, and what they leave

Building and testing need none of this; tests/scripts/goldens.sh reads the files.
"""
import os
import sys

import jax
import numpy as np
from jax import lax
from safetensors.numpy import save_file

jax.config.update("jax_enable_x64", True)
jnp = jax.numpy
HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 3
CASES = {}


class Case:
    """params, inputs, states: name -> numpy array.  forward(p, s, x, training) -> (outputs, new states)."""

    def __init__(self, params, inputs, forward, optimizer, states=None, only=None, clip=None):
        self.params, self.inputs, self.forward, self.optimizer = params, inputs, forward, optimizer
        self.states, self.only, self.clip = states or {}, only or list(params), clip


def case(name):
    def register(build):
        CASES[name] = lambda: build(np.random.default_rng(abs(hash_name(name))))
        return build
    return register


def hash_name(name):
    return sum((i + 1) * ord(c) for i, c in enumerate(name))


def normal(rng, *shape, scale=1.0, mean=0.0):
    return (mean + scale * rng.standard_normal(shape)).astype(np.float32)


def integers(rng, lo, hi, *shape):
    return rng.integers(lo, hi, shape).astype(np.int32)


def dense(rng, name, k, n, bias=True):
    p = {f"{name}.w": normal(rng, k, n, scale=k ** -0.5)}
    if bias:
        p[f"{name}.b"] = normal(rng, n, scale=0.3)
    return p


def kernel(rng, name, k, c, n, bias=True):
    p = {f"{name}.w": normal(rng, k, k, c, n, scale=(k * k * c) ** -0.5)}
    if bias:
        p[f"{name}.b"] = normal(rng, n, scale=0.3)
    return p


def gamma_beta(rng, name, n, beta=True):
    p = {f"{name}.gamma": normal(rng, n, scale=0.2, mean=1)}
    if beta:
        p[f"{name}.beta"] = normal(rng, n, scale=0.2)
    return p


# ---- definitions ---------------------------------------------------------------------------------------------------
def linear(p, name, x):
    y = jnp.einsum("...k,kn->...n", x, p[f"{name}.w"])
    return y + p[f"{name}.b"] if f"{name}.b" in p else y


def nll(logits, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits, -1), labels[..., None], -1)[..., 0]


def conv(p, name, x, stride=1, dilation=1, groups=1, padding="SAME"):
    y = lax.conv_general_dilated(x, p[f"{name}.w"], (stride, stride), padding, rhs_dilation=(dilation, dilation),
                                 dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups)
    return y + p[f"{name}.b"] if f"{name}.b" in p else y


def conv_transpose(p, name, x, stride, padding=0):
    """Every input pixel adds its multiple of the kernel at its place."""
    w = p[f"{name}.w"]
    n, h, wd, _ = x.shape
    k, f = w.shape[0], w.shape[3]
    y = jnp.zeros((n, (h - 1) * stride + k, (wd - 1) * stride + k, f))
    for i in range(h):
        for j in range(wd):
            patch = jnp.einsum("nc,rscf->nrsf", x[:, i, j], w)
            y = y.at[:, i * stride:i * stride + k, j * stride:j * stride + k].add(patch)
    y = y[:, padding:y.shape[1] - padding, padding:y.shape[2] - padding]
    return y + p[f"{name}.b"] if f"{name}.b" in p else y


def pool(x, k, stride, padding, start, op):
    return lax.reduce_window(x, start, op, (1, k, k, 1), (1, stride, stride, 1), padding)


def max_pool(x, k, stride, padding="VALID"):
    return pool(x, k, stride, padding, -jnp.inf, lax.max)


def avg_pool(x, k, stride, padding="VALID"):
    return pool(x, k, stride, padding, 0.0, lax.add) / pool(jnp.ones_like(x), k, stride, padding, 0.0, lax.add)


def layernorm(p, name, x, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + eps) * p[f"{name}.gamma"] + p[f"{name}.beta"]


def rmsnorm(p, name, x, eps=1e-5):
    return x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + eps) * p[f"{name}.gamma"]


def batchnorm(p, s, name, x, training, momentum=0.1, eps=1e-5):
    """Returns the result and the new running statistics."""
    axes = tuple(range(x.ndim - 1))
    m, v = (x.mean(axes), x.var(axes)) if training else (s[f"{name}.mu"], s[f"{name}.var"])
    y = (x - m) / jnp.sqrt(v + eps) * p[f"{name}.gamma"] + p[f"{name}.beta"]
    if not training:
        return y, {}
    return y, {f"{name}.mu": s[f"{name}.mu"] * (1 - momentum) + momentum * m,
               f"{name}.var": s[f"{name}.var"] * (1 - momentum) + momentum * v}


def heads_attention(p, prefix, x, heads, mask):
    """Head by head, row by row softmax of the scores that the mask admits."""
    c = x.shape[-1]
    d = c // heads
    qkv = linear(p, f"{prefix}qkv", x)
    parts = []
    for h in range(heads):
        q, k, v = (qkv[..., i * c + h * d:i * c + (h + 1) * d] for i in range(3))
        s = jnp.einsum("btd,bud->btu", q, k) / np.sqrt(d)
        parts.append(jnp.einsum("btu,bud->btd", jax.nn.softmax(jnp.where(mask, s, -jnp.inf), -1), v))
    return linear(p, f"{prefix}proj", jnp.concatenate(parts, -1))


def gelu(x):
    return jax.nn.gelu(x, approximate=False)


def gelu_tanh(x):
    return jax.nn.gelu(x, approximate=True)


def huber(d, delta=1.0):
    return jnp.where(jnp.abs(d) <= delta, d * d / 2, delta * (jnp.abs(d) - delta / 2))


# ---- optimizers: (p, g, state, step) -> (p, state); state: slot -> array ---------------------------------------------
def sgd(lr):
    return [], lambda p, g, s, t: (p - lr(t) * g, {})


def momentum(lr, mu=0.9):
    def update(p, g, s, t):
        m = mu * s["m"] + g
        return p - lr(t) * m, {"m": m}
    return ["m"], update


def adam(lr, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.0):
    def update(p, g, s, t):
        m = beta1 * s["m"] + (1 - beta1) * g
        v = beta2 * s["v"] + (1 - beta2) * g * g
        direction = m / (1 - beta1 ** t) / (jnp.sqrt(v / (1 - beta2 ** t)) + eps)
        return p - lr(t) * (direction + decay * p), {"m": m, "v": v}
    return ["m", "v"], update


def constant(lr):
    return lambda t: lr


def warmup_cosine(peak, warmup, total):
    def lr(t):
        if t < warmup:
            return peak * t / warmup
        return peak * 0.5 * (1 + np.cos(np.pi * min((t - warmup) / (total - warmup), 1)))
    return lr


def clipped(grads, limit):
    if limit is None:
        return grads
    norm = jnp.sqrt(sum((g ** 2).sum() for g in grads.values()))
    return {k: g * jnp.minimum(1, limit / norm) for k, g in grads.items()}


# ---- models ----------------------------------------------------------------------------------------------------------
@case("mlp")
def mlp(rng):
    params = dense(rng, "l1", 7, 9) | dense(rng, "l2", 9, 5, bias=False) | dense(rng, "head", 5, 3)

    def forward(p, s, x, training):
        h = jnp.tanh(linear(p, "l2", jax.nn.relu(linear(p, "l1", x["x"]))))
        logits = linear(p, "head", h)
        return {"loss": nll(logits, x["label"]).mean(), "probability": jax.nn.softmax(logits)}, {}
    return Case(params, {"x": normal(rng, 6, 7), "label": integers(rng, 0, 3, 6)}, forward, adam(constant(1e-2)))


# ---- low precision: operands of products in bf16, sums in f32; between products bf16, norms and functions above it ----
def bf16(x):
    return x.astype(jnp.bfloat16)


def product(spec, a, b, out=jnp.bfloat16):
    return jnp.einsum(spec, bf16(a), bf16(b), preferred_element_type=jnp.float32).astype(out)


def low_linear(p, name, x):
    return product("...k,kn->...n", x, p[f"{name}.w"]) + bf16(p[f"{name}.b"])


@case("low")
def low(rng):
    params = (dense(rng, "enter", 8, 8) | gamma_beta(rng, "norm", 8) | dense(rng, "qkv", 8, 24) | dense(rng, "proj", 8, 8)
              | dense(rng, "up", 8, 16) | dense(rng, "down", 16, 8) | dense(rng, "head", 8, 3))
    mask = np.tril(np.ones((5, 5), bool))

    def forward(p, s, x, training):
        h = jax.nn.relu(low_linear(p, "enter", x["x"]))
        qkv = low_linear(p, "qkv", layernorm(p, "norm", h.astype(jnp.float64)))
        parts = []
        for i in range(2):
            q, k, v = (qkv[..., j * 8 + i * 4:j * 8 + (i + 1) * 4] for j in range(3))
            scores = (product("btd,bud->btu", q, k) * 0.5).astype(jnp.float64)
            weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), -1)
            parts.append(product("btu,bud->btd", weights, v))
        h = h + low_linear(p, "proj", jnp.concatenate(parts, -1))
        h = h + low_linear(p, "down", gelu(low_linear(p, "up", h).astype(jnp.float64)))
        z = product("...k,kn->...n", h, p["head.w"], jnp.float64) + p["head.b"]
        return {"loss": jnp.mean((z - x["y"]) ** 2), "z": z}, {}
    return Case(params, {"x": normal(rng, 2, 5, 8), "y": normal(rng, 2, 5, 3)}, forward, momentum(constant(1e-2)))


@case("cnn")
def cnn(rng):
    params = (kernel(rng, "same2", 3, 2, 4) | kernel(rng, "grouped", 3, 2, 6, bias=False) | gamma_beta(rng, "bn", 6)
              | kernel(rng, "padded", 2, 6, 5, bias=False) | kernel(rng, "mirrored", 3, 5, 4) | kernel(rng, "inner", 3, 4, 4)
              | dense(rng, "head", 16, 4))
    states = {"bn.mu": normal(rng, 6, scale=0.3), "bn.var": np.abs(normal(rng, 6, scale=0.3, mean=1))}

    def forward(p, s, x, training):
        h = jax.nn.relu(conv(p, "same2", x["image"], stride=2))
        h = conv(p, "grouped", h, dilation=2, groups=2)
        h, new = batchnorm(p, s, "bn", h, training)
        h = max_pool(h, 3, 2, "SAME")
        h = jax.nn.silu(conv(p, "padded", h, padding=[(1, 1), (1, 1)]))
        h = avg_pool(h, 3, 1, "SAME")
        h = conv(p, "mirrored", jnp.pad(h, [(0, 0), (1, 1), (1, 1), (0, 0)], mode="reflect"), padding="VALID")
        h = avg_pool(h, 2, 2) + conv(p, "inner", h, padding="VALID")
        logits = linear(p, "head", h.reshape(h.shape[0], -1))
        return {"loss": nll(logits, x["label"]).mean(), "logits": logits}, new
    inputs = {"image": normal(rng, 2, 11, 10, 2), "label": integers(rng, 0, 4, 2)}
    return Case(params, inputs, forward, adam(constant(3e-3), decay=0.1), states)


@case("attention")
def attention(rng):
    t, c, v, window = 9, 8, 11, 4
    params = {"table": normal(rng, v, c, scale=0.5), "position": normal(rng, t, c, scale=0.5)}
    params |= gamma_beta(rng, "ln1", c) | dense(rng, "att.qkv", c, 3 * c) | dense(rng, "att.proj", c, c)
    params |= gamma_beta(rng, "ln2", c) | dense(rng, "up", c, 12) | dense(rng, "down", 12, c)
    params |= gamma_beta(rng, "ln3", c, beta=False) | dense(rng, "full.qkv", c, 3 * c) | dense(rng, "full.proj", c, c)
    params |= dense(rng, "up2", c, 12) | dense(rng, "down2", 12, c) | gamma_beta(rng, "ln_f", c)

    def forward(p, s, x, training):
        distance = np.arange(t)[:, None] - np.arange(t)[None, :]
        h = jnp.take(p["table"], x["tokens"], axis=0) + p["position"]
        h = h + heads_attention(p, "att.", layernorm(p, "ln1", h), 2, (distance >= 0) & (distance < window))
        h = h + linear(p, "down", gelu(linear(p, "up", layernorm(p, "ln2", h))))
        h = h + heads_attention(p, "full.", rmsnorm(p, "ln3", h), 2, distance >= 0)
        h = h + linear(p, "down2", gelu_tanh(linear(p, "up2", h)))
        logits = jnp.einsum("btc,vc->btv", layernorm(p, "ln_f", h), p["table"])
        counts = x["targets"] != 0
        each = jnp.where(counts, nll(logits, x["targets"]), 0)
        return {"loss": each.sum() / counts.sum(), "each": each}, {}
    inputs = {"tokens": integers(rng, 0, v, 2, t), "targets": integers(rng, 0, v, 2, t)}
    inputs["targets"][0, 2] = inputs["targets"][1, 7] = 0
    return Case(params, inputs, forward, sgd(constant(0.1)), clip=1.0)


@case("norms")
def norms(rng):
    params = gamma_beta(rng, "rms", 6, beta=False) | gamma_beta(rng, "ln", 6) | gamma_beta(rng, "bn", 6)
    params["shift"] = normal(rng, 6)
    states = {"bn.mu": normal(rng, 6, scale=0.3), "bn.var": np.abs(normal(rng, 6, scale=0.3, mean=1))}

    def forward(p, s, x, training):
        r = rmsnorm(p, "rms", x["x"])
        l = layernorm(p, "ln", x["x"] * 3, 1e-3)
        b, new = batchnorm(p, s, "bn", x["x"], training, 0.3, 1e-4)
        soft = jax.nn.softmax(r, 1)
        lse = jax.scipy.special.logsumexp(2 * l, axis=1)
        ls = jax.nn.log_softmax(b + p["shift"], -1)
        spread = (r * x["x"]).var((0, 2))
        y = x["y"]
        loss = (((soft * b - y) ** 2).mean() + huber(3 * (l - y)).mean() + huber(b - y, 0.5).mean() + 0.1 * (lse ** 2).mean()
                - 0.2 * (ls * y).mean() + spread.sum())
        return {"loss": loss, "p": soft, "lse": lse, "spread": spread}, new
    inputs = {"x": normal(rng, 5, 4, 6), "y": normal(rng, 5, 4, 6)}
    return Case(params, inputs, forward, momentum(constant(0.05), 0.8), states)


@case("indexed")
def indexed(rng):
    params = {"k": normal(rng, 3, 3, 2, scale=0.5), "w": normal(rng, 5, 5, scale=0.5), "u": normal(rng, 12, scale=0.5)}

    def forward(p, s, x, training):
        k, w, u, m, xs = p["k"], p["w"], p["u"], x["m"], x["x"]
        conv1 = lax.conv_general_dilated(xs, k, (2,), [(1, 1)], dimension_numbers=("NHC", "HIO", "NHC"))
        corr = jnp.stack([sum(u[i] * u[i + d - 3] for i in range(12) if 0 <= i + d - 3 < 12) for d in range(7)])
        diag = jnp.diagonal(w) * jnp.diagonal(m[:, ::-1])
        wide = jnp.pad(w, [(0, 1), (0, 1)])
        band = w * w + wide[1:, :5] * wide[:5, 1:]
        scaled = xs * u[None, :9, None]
        pool1 = lax.reduce_window(scaled, -jnp.inf, lax.max, (1, 3, 1), (1, 2, 1), "VALID")
        # windows that start at 0, 2, 4, 6, 8: the last reads u[8..11]
        low = jnp.stack([u[2 * i:2 * i + 4].min() for i in range(5)])
        picked = xs[:, x["at"], :] * u[x["at"]][None, :, None]
        total = jnp.einsum("ni,i->n", conv1[:, :, 0], u[:5])
        folded = jnp.stack([jnp.stack([total * xs[:, (j + c) // 2, c] if (j + c) % 2 == 0 and (j + c) // 2 < 9 else 0 * total
                                       for c in range(3)], -1) for j in range(9)], 1)
        up = jnp.stack([sum(u[i] * u[(j + 3 * i) // 4] for i in range(12) if (j + 3 * i) % 4 == 0 and (j + 3 * i) // 4 < 12)
                        for j in range(9)])
        quad = sum(xs[:, a, b] * k[b, a, 0] * xs[:, a + 1, b] for a in range(3) for b in range(3))
        loss = ((conv1 ** 2).sum() + (corr ** 2).sum() + diag.sum() ** 2 + jnp.tanh(band).sum() + (pool1 ** 2).sum()
                + (low ** 3).sum() + jnp.sin(picked).sum() + 0.1 * (folded ** 2).sum() + quad.sum() + up.sum())
        return {"loss": loss, "conv": conv1, "corr": corr, "band": band, "pool": pool1, "low": low, "picked": picked,
                "folded": folded, "up": up, "quad": quad}, {}
    inputs = {"x": normal(rng, 2, 9, 3), "m": normal(rng, 5, 5), "at": np.array([3, 8, 3, 0], np.int32)}
    return Case(params, inputs, forward, sgd(constant(0.003)))


@case("movement")
def movement(rng):
    params = {"table": normal(rng, 7, 6), "w": normal(rng, 4, 6)}

    def forward(p, s, x, training):
        table, w, xs, at = p["table"], p["w"], x["x"], int(x["at"])
        rows = table[x["ids"]]
        run = jnp.cumsum(w * xs, 1)
        back = jnp.cumsum(w[::-1], 0)[::-1] - w
        products = jnp.cumprod(0.5 * w[:, :4] + 1, -1)
        some, odd, down = w[1:4, ::2], w[-1, 1:-1], w[:, ::-1][:, 1:6:2]
        both = jnp.concatenate([w, xs * w], 1)
        edge = jnp.pad(w, [(1, 0), (2, 1)], constant_values=0.5)
        window = table[at:at + 3]
        written = jnp.concatenate([table[:at], w[:2], table[at + 2:]])
        a, b, c = jnp.split(w, 3, -1)
        turned = jnp.transpose(w.reshape(2, 2, 6), (2, 0, 1))
        loss = ((rows ** 2).sum() / 2 + (run * back).sum() + (some ** 3).sum() + (down * xs[:, :3]).sum()
                + (both[:, 3:9] ** 2).sum() + (edge ** 2).sum() + (window * xs[1:4]).sum() + (written ** 2 * table).sum()
                + (a * b / (1 + c ** 2)).sum() + (jnp.sin(turned) * turned).sum() + (odd[None, :] * rows[:, 0, 2:]).sum())
        return {"loss": loss, "rows": rows, "run": run, "back": back, "products": products, "some": some, "down": down,
                "edge": edge, "window": window, "written": written, "turned": turned}, {}
    inputs = {"x": normal(rng, 4, 6), "ids": np.array([[6, 0], [3, 3], [3, 5]], np.int32), "at": np.array(2, np.int32)}
    return Case(params, inputs, forward, sgd(constant(0.01)))


@case("transposed")
def transposed(rng):
    params = {"over.w": normal(rng, 3, 3, 3, 4, scale=0.3), "over.b": normal(rng, 4), "holes.w": normal(rng, 2, 2, 4, 2, scale=0.4)}

    def forward(p, s, x, training):
        a = gelu(conv_transpose(p, "over", x["x"], 2, 1))
        b = conv_transpose(p, "holes", a, 3)
        return {"loss": ((b - 0.5) ** 2).mean() + a.mean(), "a": a, "b": b}, {}
    return Case(params, {"x": normal(rng, 2, 4, 3, 3)}, forward, adam(constant(5e-3)))


@case("embedding")
def embedding(rng):
    params = {"table.w": normal(rng, 8, 4), "other": normal(rng, 8, 4)}

    def forward(p, s, x, training):
        e = p["table.w"][x["ids"]]
        keep = (x["ids"] != 2)[..., None]
        bag = (e * x["weight"][..., None]).mean(1)
        masked = jnp.where(keep, e, 0).sum(1) / jnp.maximum(keep.sum(1), 1)
        one = p["other"][x["ids"][:, 0]]
        return {"loss": (bag * e.max(1)).sum() + ((masked - one) ** 2).sum(), "masked": masked,
                "best": jnp.argmax(e, 1).astype(jnp.int32)}, {}
    inputs = {"ids": np.array([[1, 4, 4, 2, 0], [2, 2, 2, 2, 2], [7, 1, 2, 6, 1]], np.int32), "weight": normal(rng, 3, 5)}
    return Case(params, inputs, forward, adam(constant(1e-2), decay=0.01))


@case("pointwise")
def pointwise(rng):
    params = {"w": normal(rng, 3, 7), "v": normal(rng, 7)}

    def forward(p, st, x, training):
        w, v, x = p["w"], p["v"], x["x"]
        a = jnp.abs(w) + 0.5
        s = (jnp.exp(0.3 * w) + jnp.log(a) + jnp.log1p(a) + jnp.sqrt(a) + 1 / jnp.sqrt(a) + jnp.sin(w) * jnp.cos(x) + jnp.tanh(w)
             + jax.scipy.special.erf(w) + jax.nn.sigmoid(w) + jax.nn.relu(w) + jax.nn.silu(w))
        g = gelu(w) * gelu_tanh(x) + jax.nn.softplus(w) + gelu_tanh(w)
        f = jnp.floor(3 * x) * w + jnp.ceil(x) * v + jnp.sign(w) * w
        m = jnp.maximum(w, v) * jnp.minimum(w, x) + jnp.clip(w * 2, -1, 1)
        c = jnp.where((w > x) & ~(v < 0), w * v, w / (1 + v ** 2)) + a ** 1.5 + w ** 3 + a ** v + 2.0 ** w
        q = (a * 0.7).prod(1) + w.max(1) - (w * v).min(1) + (w * w).max() - v.min()
        loss = s.mean() + g.mean() + f.mean() + m.mean() + c.mean() + q.mean()
        return {"loss": loss, "s": s, "g": g, "f": f, "m": m, "c": c, "p": q}, {}
    return Case(params, {"x": normal(rng, 3, 7)}, forward, momentum(constant(0.1)))


@case("bounded")
def bounded(rng):
    params = dense(rng, "up", 4, 6) | gamma_beta(rng, "norm", 6) | dense(rng, "head", 6, 3)

    def forward(p, s, x, training):
        h = layernorm(p, "norm", gelu(linear(p, "up", x["x"])))
        scores = h @ h.T * 0.5
        a = jax.nn.softmax(jnp.where(np.tri(len(h), dtype=bool), scores, -jnp.inf), -1) @ h
        top = h.max(0)
        return {"loss": nll(linear(p, "head", a + top), x["y"]).mean(), "a": a, "top": top, "total": jnp.cumsum(h, 0)}, {}
    return Case(params, {"x": normal(rng, 6, 4), "y": integers(rng, 0, 3, 6)}, forward, adam(constant(1e-2)))


@case("derivatives")
def derivatives(rng):
    params = (dense(rng, "hidden", 6, 9) | dense(rng, "head", 9, 4) | gamma_beta(rng, "norm", 4) | dense(rng, "spread", 9, 12)
              | kernel(rng, "conv", 3, 2, 3) | dense(rng, "rest", 9, 1))

    def forward(p, s, x, training):
        def hidden(q):
            return jnp.tanh(linear(p, "hidden", q))

        def head(h):
            return layernorm(p, "norm", linear(p, "head", h))

        def mixed(y):
            return jax.nn.softmax(y @ y.T, -1) @ y

        def energy(q):
            return (mixed(head(hidden(q))) ** 2).sum()

        def pooled(image):
            return max_pool(conv(p, "conv", image, stride=2), 2, 1)
        q, v = x["x"], x["v"]
        h, y, c = hidden(q), head(hidden(q)), pooled(x["image"])
        whole = lambda r: mixed(head(hidden(r)))
        a, pull = jax.vjp(whole, q)
        g = jax.grad(energy)(q)
        penalty = ((jnp.sqrt((g ** 2).sum(1) + 0.01) - 1) ** 2).sum()
        pushed = jax.jvp(head, (h,), (h * h,))[1]
        outputs = {
            "wide": jax.vmap(jax.jacfwd(lambda r: linear(p, "spread", hidden(r))))(q),
            "tall": jax.vmap(jax.jacrev(lambda r: head(hidden(r))))(q),
            "whole": jax.jacrev(mixed)(y),
            "pushed": jax.jvp(whole, (q,), (v,))[1],
            "pulled": pull(jnp.sin(a))[0],
            "curved": jax.jvp(jax.grad(energy), (q,), (v,))[1],
            "bent": jax.hessian(lambda r: (jnp.tanh(r[0]) * r[1]).sum())(y),
            "patches": jax.jacfwd(lambda r: (pooled(r) ** 2).mean((1, 2)))(x["image"]),
            "loss": energy(q) + penalty + 0.1 * (pushed ** 2).sum() + c.mean() + 0.01 * linear(p, "rest", h).sum()}
        return outputs, {}
    inputs = {"x": normal(rng, 5, 6), "v": normal(rng, 5, 6), "image": normal(rng, 1, 5, 4, 2)}
    return Case(params, inputs, forward, sgd(constant(3e-2)))


OPTIMIZERS = {
    "sgd_plain": (sgd(constant(0.05)), None, None),
    "sgd_clipped": (sgd(constant(0.05)), 0.25, None),
    "momentum_warm": (momentum(warmup_cosine(0.2, 3, 8), 0.7), None, None),
    "adam_plain": (adam(constant(0.03), 0.8, 0.95, 1e-6), None, None),
    "adamw_clipped": (adam(warmup_cosine(0.03, 2, 6), decay=0.2), 0.5, None),
    "adam_part": (adam(constant(0.03)), 0.1, ["fit.w", "fit.b", "low.b"]),
}


def regression(rng, optimizer, clip, only):
    deep = only is not None
    params = dense(rng, "fit", 4, 3) | (dense(rng, "low", 4, 4) if deep else {})

    def forward(p, s, x, training):
        h = jnp.tanh(linear(p, "low", x["x"])) if deep else x["x"]
        return {"loss": ((linear(p, "fit", h) - x["y"]) ** 2).mean()}, {}
    return Case(params, {"x": normal(rng, 5, 4), "y": normal(rng, 5, 3)}, forward, optimizer, only=only, clip=clip)


for _name, _args in OPTIMIZERS.items():
    case(f"optimizers.{_name}")(lambda rng, args=_args: regression(rng, *args))


# ---- running them ----------------------------------------------------------------------------------------------------
def widened(tensors):
    return {k: jnp.asarray(v, jnp.float64) if v.dtype == np.float32 else jnp.asarray(v) for k, v in tensors.items()}


def gradients(c, p, s, x):
    def loss(trained):
        outputs, new = c.forward({**p, **trained}, s, x, True)
        return outputs["loss"], (outputs, new)
    grads, (outputs, new) = jax.grad(loss, has_aux=True)({k: p[k] for k in c.only})
    return outputs, new, grads


def train(c, p, s, x):
    slots, update = c.optimizer
    held = {k: {slot: jnp.zeros_like(p[k]) for slot in slots} for k in c.only}
    for t in range(1, STEPS + 1):
        outputs, new, grads = gradients(c, p, s, x)
        s = {**s, **new}
        for k, g in clipped(grads, c.clip).items():
            p[k], held[k] = update(p[k], g, held[k], t)
    return outputs, p, {**s, **{f"{k}.{slot}": v for k, h in held.items() for slot, v in h.items()}}


def stored(v):
    v = np.asarray(v)
    return np.ascontiguousarray(v.astype(np.float32) if v.dtype == np.float64 else v).reshape(v.shape)


def write(name, c):
    p, s, x = widened(c.params), widened(c.states), widened(c.inputs)
    out = {}

    def put(prefix, tensors):
        out.update({prefix + k: stored(v) for k, v in tensors.items()})
    put("param/", c.params)
    put("param/state/", c.states)
    put("input/", c.inputs)
    put("infer/", c.forward(p, s, x, False)[0])
    outputs, _, grads = gradients(c, p, s, x)
    put("grad/", outputs)
    put("grad/grad/", grads)
    outputs, p, s = train(c, dict(p), s, x)
    put("step/", outputs)
    put("step/param/", p)
    put("step/state/", s)
    path = os.path.join(HERE, f"{name}.safetensors")
    save_file(out, path)
    os.chmod(path, 0o644)


if __name__ == "__main__":
    for chosen in sys.argv[1:] or CASES:
        write(chosen, CASES[chosen]())
