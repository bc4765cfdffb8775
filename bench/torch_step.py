"""Steps in PyTorch that take turns with ours: what bench/*_torch.py share.  versus.c says how they are asked for."""
import sys
import time

import torch


def trainer(name, threads, optimizer, loss_of):
    """A function that takes a training step and returns its seconds; with one thread, the processor's."""
    now = time.process_time if threads == 1 else time.perf_counter

    def step():
        start = now()
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        optimizer.step()
        seconds = now() - start
        if not torch.isfinite(loss):
            sys.exit(f"{name}: the loss is not finite")
        return seconds

    step()  # warms up
    return step


def serve(name, candidates):
    """Of the trainers, by their names, the fastest: a step for each line of standard input, whose seconds are printed."""
    best = min(candidates, key=lambda way: min(candidates[way]() for _ in range(2)))
    step = candidates[best]
    candidates.clear()
    print(f"{name}: {torch.__version__}, {torch.get_num_threads()} threads, {best}", file=sys.stderr)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(f"{step():.6f}", flush=True)
