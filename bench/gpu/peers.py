"""What PyTorch makes of the same work on the same card: its times, and its float64 as the judge of large results.

    python3 peers.py --run fusec_gpu_run --pack PACK --arch sm_90 --dump DIR --times times.txt --seconds N

Prints NAME<TAB>VALUE<TAB>UNIT:  peer.CASE.WHAT.HOW in ms,  ratio.CASE.WHAT.HOW our time over the peer's,
check.CASE.torch the largest relative error; lines that begin with FAIL name tensors that differ.
WHAT is fwd, fwd_bwd or step.  HOW is f32 (TF32 off), tf32, bf16, amp (products in bf16 of parameters in f32, by autocast, where our
model says precision bf16), compile (torch.compile, f32) or compile_amp.  bf16 is one product of operands
that lie in memory as bf16, and both its gradients, with results in bf16; bf16_f32 the same with results in f32 (gemm_bf16), or that
of the weights (linear_bf16), as ours are.  There ours is the time of these products' kernels alone, taken right before and right
after the peer's.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

BEYOND_CACHE = 320 << 20  # bytes that copies of the operands fill together
COPIES = 16
QUEUE = 8  # calls that are launched behind a pause
PAUSE = 1 << 20  # clocks: about 0.6 ms, in which they are
TOLERANCE = 1e-4  # of float32 results against float64, in 2-norms
LOW_TOLERANCE = 1e-2  # of bf16 ones: 8 bits of each operand and result
START = time.time()


def emit(name, value, unit):
    print(f"{name}\t{value:.6g}\t{unit}", flush=True)


def note(text):
    print(text, file=sys.stderr, flush=True)


# ---- timing -------------------------------------------------------------------------------------------------------
def captured(call):
    """The call as a CUDA graph, so that the host's speed does not count; the call itself where it cannot be captured."""
    try:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                call()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept = call()

        def replay():
            graph.replay()
            return kept

        return replay
    except Exception as e:  # what cannot be captured runs as it is
        note(f"no graph: {type(e).__name__}: {str(e)[:200]}")
        torch.cuda.synchronize()
        return call


def milliseconds(calls, seconds=0.6):
    """Median time of one call; `calls` take turns, so that no operand is found in the cache.

    A few calls queue up behind a pause of the card, so that no event waits for the host."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    times, end, batch = [], time.time() + seconds, 1
    while len(times) < 5 or (time.time() < end and len(times) < 200):
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(batch)]
        torch.cuda._sleep(PAUSE)
        for a, b in events:
            a.record()
            calls[len(times) % len(calls)]()
            b.record()
            times.append((a, b))
        torch.cuda.synchronize()
        batch = QUEUE if len(times) > 1 and times[-1][0].elapsed_time(times[-1][1]) < 1e3 * seconds / QUEUE else 1
    return statistics.median(a.elapsed_time(b) for a, b in times)


def made(call, how):
    """The call under autocast, compiled, or as it is."""
    def mixed(*of):
        with torch.autocast("cuda", torch.bfloat16, enabled=how.endswith("amp")):
            return call(*of)

    if not how.startswith("compile"):
        return mixed
    torch._dynamo.reset()  # `mixed` is one code object: from the ninth shape on it would run uncompiled
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    return torch.compile(mixed, dynamic=False)


def report(case, what, how, ms, ours):
    emit(f"peer.{case}.{what}.{how}", ms, "ms")
    mine = ours.get((case, {"fwd": "infer", "fwd_bwd": "grad", "step": "step"}[what]))
    if mine:
        emit(f"ratio.{case}.{what}.{how}", mine / ms, "ours/peer")


def precision(how):
    torch.set_float32_matmul_precision("high" if how == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = how == "tf32"


# ---- small models: one operation and its gradient ---------------------------------------------------------------------
class Case:
    """dims: their defaults.  shapes of params and inputs; forward(params, inputs) -> the output called y.

    scalar: that output is the loss.  eager: the gradient sorts with the host's help, so no CUDA graph is tried."""

    def __init__(self, dims, params, inputs, forward, hows=("f32",), scalar=False, eager=False, tolerance=TOLERANCE):
        self.dims, self.params, self.inputs, self.forward, self.hows, self.scalar, self.eager = dims, params, inputs, forward, hows, scalar, eager
        self.tolerance = tolerance


def attention_float64(p, i):
    d = p["q"].shape[-1]
    s = p["q"] @ p["k"].transpose(-1, -2) * d**-0.5
    mask = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).tril()
    return s.masked_fill(~mask, float("-inf")).softmax(-1) @ p["v"]


def attention(p, i):
    q, k, v = p["q"], p["k"], p["v"]
    if q.dtype == torch.float64:
        return attention_float64(p, i)
    if torch.is_autocast_enabled("cuda"):  # else the parameters' own type would stay
        q, k, v = (x.bfloat16() for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).to(p["q"].dtype)


def rows(d):
    return (d["R"], d["C"])


def linear_loss(p, i):
    return F.cross_entropy(p["x"] @ p["w"].t(), i["label"].long())


def norm(x, p, n):
    return F.layer_norm(x, x.shape[-1:], p[n + ".gamma"], p[n + ".beta"], 1e-5)


def linear(p, i):
    return norm(norm(p["e"] @ p["before"], p, "norm_x") @ p["w"], p, "norm_y") @ p["after"]


SMALL = {
    "gemm": Case(dict(M=1024, N=1024, K=1024), dict(a=lambda d: (d["M"], d["K"]), b=lambda d: (d["K"], d["N"])),
                 dict(g=lambda d: (d["M"], d["N"])), lambda p, i: p["a"] @ p["b"], ("f32", "tf32")),
    "gemm_bf16": Case(dict(M=4096, N=4096, K=4096), dict(a=lambda d: (d["M"], d["K"]), b=lambda d: (d["K"], d["N"])),
                      dict(g=lambda d: (d["M"], d["N"])), lambda p, i: p["a"] @ p["b"], ("bf16",), tolerance=LOW_TOLERANCE),
    "linear_bf16": Case(dict(M=4096, N=4096, K=4096, R=4),
                        {"e": lambda d: (d["M"], d["R"]), "before": lambda d: (d["R"], d["K"]), "w": lambda d: (d["K"], d["N"]),
                         "after": lambda d: (d["N"], d["R"]), "norm_x.gamma": lambda d: (d["K"],), "norm_x.beta": lambda d: (d["K"],),
                         "norm_y.gamma": lambda d: (d["N"],), "norm_y.beta": lambda d: (d["N"],)},
                        dict(g=lambda d: (d["M"], d["R"])), linear, ("bf16",), tolerance=LOW_TOLERANCE),
    "softmax": Case(dict(R=16384, C=4096), dict(x=rows), dict(g=rows), lambda p, i: p["x"].softmax(-1), ("f32", "compile")),
    "layernorm": Case(dict(R=16384, C=4096), {"x": rows, "norm.gamma": lambda d: (d["C"],), "norm.beta": lambda d: (d["C"],)},
                      dict(g=rows), lambda p, i: F.layer_norm(p["x"], p["x"].shape[-1:], p["norm.gamma"], p["norm.beta"], 1e-5),
                      ("f32", "compile")),
    "cross_entropy": Case(dict(R=16384, C=4096), dict(x=rows), dict(label=lambda d: (d["R"],)),
                          lambda p, i: F.cross_entropy(p["x"], i["label"].long()), ("f32", "compile"), scalar=True),
    "linear_loss": Case(dict(R=4096, C=768, V=50257), dict(x=rows, w=lambda d: (d["V"], d["C"])), dict(label=lambda d: (d["R"],)),
                        linear_loss, ("f32", "tf32", "amp", "compile", "compile_amp"), scalar=True),
    "embedding": Case(dict(R=16384, C=768, V=50257), dict(table=lambda d: (d["V"], d["C"])),
                      dict(token=lambda d: (d["R"],), g=rows), lambda p, i: F.embedding(i["token"].long(), p["table"]), eager=True),
    "attention": Case(dict(B=4, H=16, T=1024, D=64), {n: lambda d: (d["B"], d["H"], d["T"], d["D"]) for n in "qkv"},
                      dict(g=lambda d: (d["B"], d["H"], d["T"], d["D"])), attention, ("f32", "tf32", "amp")),
}


def dump(args, case):
    """Our tensors of a case, as files: runs the case on the card."""
    shutil.rmtree(args.dump, ignore_errors=True)
    os.makedirs(args.dump)
    subprocess.run([args.run, "dump", args.pack, args.arch, case, args.dump], check=True, timeout=90)


def load(args, name, shape, dtype=torch.float64):
    integer = os.path.exists(f"{args.dump}/{name}.i32")
    path = f"{args.dump}/{name}." + ("i32" if integer else "f32")
    with open(path, "rb") as f:
        flat = torch.frombuffer(bytearray(f.read()), dtype=torch.int32 if integer else torch.float32)
    t = flat.cuda().reshape(shape)
    return t if integer else t.to(dtype)


def relative(got, want):
    if not bool(torch.isfinite(got).all()):
        return float("inf")
    return float((got - want).norm() / want.norm().clamp_min(1e-30))


def compare(case, pairs, tolerance=TOLERANCE):
    worst = 0.0
    for name, error in pairs:
        worst = max(worst, error)
        if not error <= tolerance:
            print(f"FAIL {case}: {name}: relative error {error:.3g}", flush=True)
    emit(f"check.{case}.torch", min(worst, 1e30), "relative_error")


def gradients(case, p, i):
    """y and the gradients of the parameters, as our model has them: of sum(y * g), or of y itself."""
    y = case.forward(p, i)
    return y, torch.autograd.grad(y, list(p.values()), None if case.scalar else i["g"])


def check_small(args, name, case, dims, tolerance):
    dump(args, name)
    p = {n: load(args, f"param.{n}", s(dims)).requires_grad_() for n, s in case.params.items()}
    i = {n: load(args, f"input.{n}", s(dims)) for n, s in case.inputs.items()}
    y, g = gradients(case, p, i)
    out = "loss" if case.scalar else "y"
    pairs = [(f"{e} {out}", relative(load(args, f"{e}.{out}", y.shape), y.detach())) for e in ("output", "grad_output")]
    pairs += [(f"gradient of {n}", relative(load(args, f"grad.{n}", w.shape), w)) for n, w in zip(p, g)]
    if not case.scalar:
        terms = (y.detach() * i["g"]).flatten()
        pairs.append(("loss", abs(float(load(args, "grad_output.loss", ()) - terms.sum())) / float(terms.norm())))
    compare(name, pairs, tolerance)


def time_small(args, name, case, dims, ours, hows):
    def operands(seed):
        torch.manual_seed(seed)
        p = {n: torch.randn(s(dims), device="cuda", requires_grad=True) for n, s in case.params.items()}
        i = {n: torch.randn(s(dims), device="cuda") for n, s in case.inputs.items() if n == "g"}
        i |= {n: torch.randint(0, dims.get("V", dims.get("C")), s(dims), device="cuda") for n, s in case.inputs.items() if n != "g"}
        return p, i

    size = sum(t.numel() * t.element_size() for d in operands(0) for t in d.values())
    sets = [operands(s) for s in range(min(COPIES, max(1, -(-BEYOND_CACHE // (2 * size)))))]
    for how in hows:
        precision(how)
        forward = made(case.forward, how)
        timed = Case(case.dims, case.params, case.inputs, forward, scalar=case.scalar)

        def run_forward(p, i):
            with torch.no_grad():
                return forward(p, i)

        ready = (lambda call: call) if case.eager else captured
        report(name, "fwd", how, milliseconds([ready(lambda p=p, i=i: run_forward(p, i)) for p, i in sets]), ours)
        report(name, "fwd_bwd", how, milliseconds([ready(lambda p=p, i=i: gradients(timed, p, i)) for p, i in sets]), ours)
    precision("f32")


# ---- one product and both its gradients ----------------------------------------------------------------------------------
def product_calls(x, w, dy, out, dw_out):
    """out, dw_out: the types of results that are not in bf16."""
    def mm(a, b, dtype):
        return a @ b if dtype is None else torch.mm(a, b, out_dtype=dtype)

    def forward():
        return mm(x, w, out)

    return {"fwd": forward, "fwd_bwd": lambda: (forward(), mm(dy, w.t(), out), mm(x.t(), dy, dw_out))}


def our_product(args, name, flops, earlier):
    """Milliseconds by entry of the kernels that do that many operations, measured now, or as they were earlier."""
    now = {}
    if left(args) > 30:
        run = subprocess.run([args.run, "time", args.pack, args.arch, name, "kernels"], capture_output=True, text=True, timeout=60)
        now = products(run.stdout.splitlines(), name, flops)
    return now or products(earlier, name, flops)


def time_product(args, name, kind, dims, earlier):
    m, n, k = dims["M"], dims["N"], dims["K"]
    flops, size = 2 * m * n * k, 2 * (m * k + k * n + m * n)

    def random(rows, columns):
        return torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)

    sets = [(random(m, k), random(k, n), random(m, n)) for _ in range(min(COPIES, max(1, -(-BEYOND_CACHE // (2 * size)))))]
    low_y = None if kind == "linear_bf16" else torch.float32
    after = our_product(args, name, flops, earlier)
    for how, out, dw_out in (("bf16", None, None), ("bf16_f32", low_y, torch.float32)):
        before = after
        try:
            calls = [product_calls(*s, out, dw_out) for s in sets]
            theirs = {what: milliseconds([captured(c[what]) for c in calls]) for what in ("fwd", "fwd_bwd")}
        except (TypeError, RuntimeError) as e:  # a PyTorch whose products have no out_dtype
            note(f"{name} {how}: {type(e).__name__}: {str(e)[:200]}")
            continue
        after = our_product(args, name, flops, earlier)
        for what, entry in (("fwd", "infer"), ("fwd_bwd", "grad")):
            mine = [t[entry] for t in (before, after) if entry in t]
            report(name, what, how, theirs[what], {(name, entry): sum(mine) / len(mine)} if mine else {})
            emit(f"rate.{name}.{what}.{how}", flops * (3 if what == "fwd_bwd" else 1) / theirs[what] * 1e-9, "TFLOP/s")


# ---- GPT-2 -------------------------------------------------------------------------------------------------------------
V, C, HEADS, LAYERS = 50257, 768, 12, 12


def gpt2_shapes(t):
    s = {"wte": (V, C), "wpe": (t, C)}
    for l in range(LAYERS):
        for n in ("ln_1", "ln_2"):
            s[f"h.{l}.{n}.gamma"] = s[f"h.{l}.{n}.beta"] = (C,)
        for n, k, m in (("attn.qkv", C, 3 * C), ("attn.proj", C, C), ("fc", C, 4 * C), ("proj", 4 * C, C)):
            s[f"h.{l}.{n}.w"], s[f"h.{l}.{n}.b"] = (k, m), (m,)
    s["ln_f.gamma"] = s["ln_f.beta"] = (C,)
    return s


def gpt2_loss(p, tokens, targets):
    def norm(x, n):
        return F.layer_norm(x, (C,), p[n + ".gamma"], p[n + ".beta"], 1e-5)

    def linear(x, n):
        return x @ p[n + ".w"] + p[n + ".b"]

    b, t = tokens.shape
    x = F.embedding(tokens, p["wte"]) + p["wpe"]
    for l in range(LAYERS):
        h = f"h.{l}."
        q, k, v = (z.view(b, t, HEADS, -1).transpose(1, 2) for z in linear(norm(x, h + "ln_1"), h + "attn.qkv").split(C, -1))
        y = attention(dict(q=q, k=k, v=v), None).transpose(1, 2).reshape(b, t, C)
        x = x + linear(y, h + "attn.proj")
        x = x + linear(F.gelu(linear(norm(x, h + "ln_2"), h + "fc"), approximate="tanh"), h + "proj")
    return F.cross_entropy((norm(x, "ln_f") @ p["wte"].t()).view(-1, V), targets.reshape(-1))


def check_gpt2(args, name, dims):
    """The gradients that clipping and the optimizer get; our grad entry gives them unclipped."""
    dump(args, name)
    b, t = dims["B"], dims["T"]
    p = {n: load(args, f"param.{n}", s).requires_grad_() for n, s in gpt2_shapes(t).items()}
    loss = gpt2_loss(p, load(args, "input.tokens", (b, t)).long(), load(args, "input.targets", (b, t)).long())
    g = torch.autograd.grad(loss, list(p.values()))
    pairs = [("loss", relative(load(args, "grad_output.loss", ()), loss.detach()))]
    pairs += [(f"gradient of {n}", relative(load(args, f"grad.{n}", w.shape), w)) for n, w in zip(p, g)]
    compare(name, pairs, 5e-4)


def time_gpt2(args, name, dims, ours, hows):
    b, t = dims["B"], dims["T"]
    for how in hows:
        precision(how)
        torch.manual_seed(0)
        torch.cuda.reset_peak_memory_stats()
        p = {n: torch.nn.Parameter(torch.randn(s, device="cuda") * 0.02) for n, s in gpt2_shapes(t).items()}
        optimizer = torch.optim.AdamW(list(p.values()), lr=6e-4, weight_decay=0.1, fused=True)
        tokens, targets = (torch.randint(0, V, (b, t), device="cuda") for _ in range(2))
        loss_of = made(gpt2_loss, how)

        def forward():
            with torch.no_grad():
                return loss_of(p, tokens, targets)

        def backward():
            optimizer.zero_grad(set_to_none=True)
            loss_of(p, tokens, targets).backward()

        def step():
            backward()
            torch.nn.utils.clip_grad_norm_(list(p.values()), 1.0)
            optimizer.step()

        for what, call in (("fwd", forward), ("fwd_bwd", backward), ("step", step)):
            report(name, what, how, milliseconds([call], 1.5), ours)
        if what == "step" and how in ("f32", "amp"):
            emit(f"peer.{name}.step.peak_memory", torch.cuda.max_memory_allocated() / 2**20, "MiB")
    precision("f32")


# ---- ResNet-50 -----------------------------------------------------------------------------------------------------------
def time_resnet50(args, name, dims, ours, hows):
    from torchvision.models import resnet50

    for how in hows:
        precision(how)
        model = resnet50().cuda().to(memory_format=torch.channels_last).train()
        loss_of = made(lambda x, label, model=model: F.cross_entropy(model(x), label), how)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        x = torch.randn(dims["B"], 3, dims["S"], dims["S"], device="cuda").to(memory_format=torch.channels_last)
        label = torch.randint(0, 1000, (dims["B"],), device="cuda")

        def backward():
            optimizer.zero_grad(set_to_none=True)
            loss_of(x, label).backward()

        def step():
            backward()
            optimizer.step()

        report(name, "fwd_bwd", how, milliseconds([backward], 1.5), ours)
        report(name, "step", how, milliseconds([step], 1.5), ours)
    precision("f32")


# ---- the card's ceilings -------------------------------------------------------------------------------------------------
def ceilings():
    a = torch.randn(1 << 28, device="cuda")
    b = torch.empty_like(a)
    emit("ceiling.copy", 2 * a.numel() * 4 / milliseconds([lambda: b.copy_(a)]) * 1e-6, "GB/s")
    for how in ("f32", "tf32"):
        precision(how)
        x, y = (torch.randn(8192, 8192, device="cuda") for _ in range(2))
        emit(f"ceiling.matmul.{how}", 2 * 8192**3 / milliseconds([lambda: x @ y]) * 1e-9, "TFLOP/s")
    x, y = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    emit("ceiling.matmul.bf16", 2 * 8192**3 / milliseconds([lambda: x @ y]) * 1e-9, "TFLOP/s")
    precision("f32")


def left(args):
    return args.seconds - (time.time() - START)


def products(lines, name, least):
    """By entry, what the kernels of a case's products took together that do at least that many operations."""
    sums = {}
    for line in lines:
        field = line.rstrip("\n").split("\t")
        part = field[0].split(".")  # CASE.ARCH.ENTRY.kernel.NAME, ms, "launches N, TFLOP/s X, GB/s Y"
        if len(field) < 4 or len(part) != 5 or part[0] != name or "_contract_" not in part[4]:
            continue
        ms, rate = float(field[1]), float(field[3].split("TFLOP/s ")[1].split(",")[0])
        if rate * ms * 1e9 >= 0.99 * least:
            sums[part[2]] = sums.get(part[2], 0) + ms
    return sums


def our_times(path):
    """By case and entry: a call; under "lines" all that there is."""
    ours = {}
    with open(path) as f:
        lines = f.readlines()
    for line in lines:
        field = line.rstrip("\n").split("\t")
        part = field[0].split(".")  # CASE.ARCH.ENTRY.call
        if len(field) >= 3 and len(part) == 4 and part[3] == "call":
            ours[part[0], part[2]] = float(field[1])
    return ours | {"lines": lines}


def is_low(model):
    """model: as cases.txt has it; those with a precision of their own lie beside this file."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), model)
    if not os.path.exists(path):
        return False
    with open(path) as f:
        return "precision bf16" in (line.strip() for line in f)


def one_case(args, name, kind, oracle, use, dims, ours, compiled, low):
    """compiled: only what torch.compile makes, which takes long and comes last.  low: our model says precision bf16."""
    hows = ["compile_amp" if low else "compile"] if compiled else ["bf16", "amp"] if low else ["f32", "tf32", "bf16"]
    if kind in SMALL:
        case = SMALL[kind]
        dims = {**case.dims, **dims}
        if oracle == "torch" and not compiled:
            check_small(args, name, case, dims, LOW_TOLERANCE if low else case.tolerance)
        hows = [h for h in hows if h in case.hows]
        if hows and "t" in use:
            if hows == ["bf16"]:
                time_product(args, name, kind, dims, ours["lines"])
            else:
                time_small(args, name, case, dims, ours, hows)
    elif kind == "gpt2" and "t" in use:
        hows = [h for h in hows if h != "bf16"]
        dims = {"B": 8, "T": 1024, **dims}
        if oracle == "host" and not compiled:
            check_gpt2(args, name, dims)
        time_gpt2(args, name, dims, ours, hows)
    elif kind == "resnet50" and "t" in use and not compiled:
        hows = [h for h in hows if h != "bf16"]
        time_resnet50(args, name, {"B": 32, "S": 224, **dims}, ours, hows)


def main():
    parser = argparse.ArgumentParser()
    for flag in ("--run", "--pack", "--arch", "--dump", "--times"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--seconds", type=float, default=150)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        note("this PyTorch sees no GPU")
        return 1
    precision("f32")
    ceilings()
    ours, status = our_times(args.times), 0
    with open(os.path.join(args.pack, "cases.txt")) as f:
        cases = sorted((line.split() for line in f), key=lambda case: "m" not in case[3])  # matrix products first
    for compiled, (name, oracle, _, use, model, *options) in [(c, x) for c in (False, True) for x in cases]:
        kind = os.path.basename(model).removesuffix(".dsl")
        if "s" in use or left(args) < (30 if compiled else 8):
            continue
        try:
            dims = {k: int(v) for k, v in (o.split("=") for o in options)}
            one_case(args, name, kind, oracle, use, dims, ours, compiled, is_low(model))
        except Exception as e:  # one peer that fails must not cost the others
            note(f"{name}: {type(e).__name__}: {str(e)[:500]}")
            status = 3
        torch.cuda.empty_cache()
        note(f"{name}: {left(args):.0f} s left")
    shutil.rmtree(args.dump, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
