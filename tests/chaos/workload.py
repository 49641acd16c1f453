"""Mixed requests, and a crowd of clients that keep asking them and compare every answer."""

from __future__ import annotations

import asyncio
import random
import time

import msgspec

from twinfer.messages import Sampling
from twinfer.router.generation import Generation
from twinfer.router.router import Router
from twinfer.router.ticket import Ticket


def requests(count: int, seed: int) -> list[Generation]:
    """Prompts that share beginnings, short and long, greedy and sampled."""
    source = random.Random(seed)
    systems = [[source.randrange(300, 40000) for _ in range(length)] for length in (20, 50, 130)]
    made: list[Generation] = []
    for number in range(count):
        turn = [source.randrange(300, 40000) for _ in range(source.choice([5, 30, 90, 300]))]
        how = Sampling(temperature=(0.0, 0.8)[number % 2], top_p=0.95, seed=number)
        made.append(Generation(source.choice(systems) + turn, how, source.randrange(20, 90)))
    return made


class Watched(msgspec.Struct):
    """An answer under way, with the time of each of its tokens so far."""

    ticket: Ticket
    times: list[float] = msgspec.field(default_factory=list[float])


class Tally(msgspec.Struct):
    """What became of the answers."""

    answered: int = 0
    hung_up: int = 0
    different: int = 0
    lost: list[str] = msgspec.field(default_factory=list[str])


class Crowd:
    """Clients that ask one request after the other until told to stop; one in eight hangs up midway."""

    def __init__(self, router: Router, asked: list[Generation], expected: list[list[int]], seed: int) -> None:
        self.live: dict[int, Watched] = {}
        self.tally = Tally()
        self._router = router
        self._asked = asked
        self._expected = expected
        self._source = random.Random(seed)
        self._stop = False

    def stop(self) -> None:
        """Let every client finish the answer it is reading."""
        self._stop = True

    async def run(self, clients: int) -> None:
        await asyncio.gather(*(self._client() for _ in range(clients)))

    async def _client(self) -> None:
        while not self._stop:
            which = self._source.randrange(len(self._asked))
            patience = self._source.randrange(1, 20) if self._source.random() < 1 / 8 else None
            try:
                answer = await self._ask(self._asked[which], patience)
            except Exception as error:
                self.tally.lost.append(f"{type(error).__name__}: {error}")
                await asyncio.sleep(0.1)
                continue
            if answer is None:
                self.tally.hung_up += 1
            else:
                self.tally.answered += 1
                self.tally.different += answer != self._expected[which]

    async def _ask(self, generation: Generation, patience: int | None) -> list[int] | None:
        watched = Watched(self._router.submit(generation))
        number = watched.ticket.request.id
        self.live[number] = watched
        answer: list[int] = []
        try:
            async for tokens in watched.ticket:
                watched.times.append(time.monotonic())
                answer += tokens
                if patience is not None and len(answer) >= patience:
                    return None
            return answer
        finally:
            watched.ticket.cancel()
            del self.live[number]
