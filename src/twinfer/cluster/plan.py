"""Which engines a deployment on this host is made of."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec

from twinfer.cluster.cores import split_cores
from twinfer.config import Config
from twinfer.messages import Role


class EngineSpec(msgspec.Struct, frozen=True):
    """An engine to be started: its name, its role, and its home cores."""

    id: str
    role: Role
    cores: list[int]


def plan_engines(config: Config, cores: list[int]) -> list[EngineSpec]:
    """The engines that `config` asks for, with `cores` dealt out among them."""
    if config.colocate:
        return [EngineSpec("mixed-0", "mixed", cores)]
    roles: list[Role] = [
        *itertools.repeat("prefill", config.prefill_engines),
        *itertools.repeat("decode", config.decode_engines),
    ]
    shares = split_cores(cores, len(roles))
    counts: dict[str, int] = {}
    specs: list[EngineSpec] = []
    for role, share in zip(roles, shares, strict=True):
        number = counts.get(role, 0)
        counts[role] = number + 1
        specs.append(EngineSpec(f"{role}-{number}", role, share))
    return specs


def team_cores(specs: Sequence[EngineSpec], engine: int) -> list[tuple[int, bool]]:
    """Cores that the threads of engine number `engine` are on, and whether each is another engine's."""
    borrowed = [(core, True) for core, _ in lenders(specs, engine)]
    return [(core, False) for core in specs[engine].cores] + borrowed


def lenders(specs: Sequence[EngineSpec], engine: int) -> list[tuple[int, int]]:
    """Cores that engine number `engine` may borrow, each with the number of the engine that lends it.

    Cores that several engines share are nobody's to lend.
    """
    others = [(core, number) for number, spec in enumerate(specs) if number != engine for core in spec.cores]
    cores = [core for core, _ in others]
    return [
        (core, number)
        for core, number in others
        if core not in specs[engine].cores and cores.count(core) == 1
    ]
