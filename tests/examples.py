"""Messages between router and engines, one of each kind and as they should be."""

from __future__ import annotations

from twinfer.messages import (
    Cancel,
    Decode,
    Failed,
    Grant,
    Hello,
    Load,
    Place,
    Pool,
    Prefill,
    Ready,
    Region,
    Released,
    Sampling,
    Stale,
    Step,
    Task,
    Usage,
    Weights,
)

TASK = Task(Sampling(0.5, 3, 0.9, 0.1, 7), (5,), 60)
REGION = Region(3, 4096)
LOAD = Load(
    Weights(REGION, {"config": {"vocab": 100, "inv_freq": [1.0, 0.5]}, "layers": [{"norm": 64}]}),
    None,
    Pool(REGION, 16, "bf16"),
    Place(REGION, 2, 0, 1, [(1, 1)]),
    512,
    64,
    0.05,
)
PREFILL = Prefill(1, [1, 2, 3], 0, [0, 1], [1, 1], TASK)
FROM_ENGINE = [
    Hello(1),
    Ready("avx2"),
    Step([], [], [], [], 1.0, 2.0, 0, 0, 0),
    Step([1], [2], [0], [(3, 16)], 1.0, 2.0, 16, 1, 20),
    Released(1, 1),
    Stale([1, 2]),
    Failed("no memory"),
    Usage([1.5, 0.25], 7, 0.5, 0.001, 0.0005),
]
TO_ENGINE = [
    LOAD,
    PREFILL,
    Decode(1, [4], 3, [0, 1], [1, 1], TASK),
    Grant(1, [2], [1]),
    Cancel(1, 2),
]
