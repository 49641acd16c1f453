"""A cluster without processes or kernels: the real core, the real engines, and a model made of arithmetic.

The simulated model keeps each token in the page its KV would be in, and its next token is a hash of
all tokens it finds through the page table. So a wrong page table, a page with two owners, a chunk
left out or a position off by one gives a different answer.
"""

import math
import zlib
from collections import deque

import numpy as np

from twinfer.engine.engine import Engine
from twinfer.engine.validation import Bounds
from twinfer.engine.validation import check as check_message
from twinfer.messages import Cancel, Sampling, Step
from twinfer.policy.pages import PageLedger
from twinfer.policy.poison import CRASH
from twinfer.router.check import check
from twinfer.router.core import Core
from twinfer.router.generation import Generation
from twinfer.router.memory import Cache, Memory
from twinfer.router.request import Request
from twinfer.router.validation import check_released, check_stale, check_step
from twinfer.timeline import Timeline

PAGE = 4
CACHE = Cache(root="model")
VOCAB = 97


def next_token(tokens, seed):
    return zlib.crc32(np.array([seed, *tokens], np.int64).tobytes()) % VOCAB


def expected(generation, max_length, precisions=(0, 0)):
    """The answer, computed without pages, chunks or batches."""
    tokens = list(generation.prompt)
    kv = [token + precisions[0] * VOCAB for token in tokens]
    while len(tokens) < max_length:
        tokens.append(next_token(kv, generation.sampling.seed))
        kv.append(tokens[-1] + precisions[1] * VOCAB)
        if tokens[-1] in generation.stop_tokens:
            break
    return tokens


class HashModel:
    """Stands in for the native decoder, over a pool of token ids.

    `precision` is added to all that is written, as if the KV of another precision were other KV.
    """

    def __init__(self, pool, precision):
        self.pool = pool
        self.precision = precision

    def forward(self, tokens, rows, starts, tables, sample, temperature, top_k, top_p, min_p, seeds):
        sampled, at = [], 0
        for s, count in enumerate(rows):
            for position in range(starts[s], starts[s] + count):
                self.pool[tables[s][position // PAGE]][position % PAGE] = tokens[at] + self.precision * VOCAB
                at += 1
            context = [
                self.pool[tables[s][position // PAGE]][position % PAGE]
                for position in range(starts[s] + count)
            ]
            sampled.append(next_token(context, int(seeds[s])) if sample[s] else -1)
        return np.array(sampled, np.int32)


class Watch:
    """Stands in for an engine's side of the board."""

    def __init__(self, stamps):
        self.stamps = stamps
        self.in_flight = {}
        self.dying = False

    def begin(self, tokens, *, prompts):
        self.in_flight = tokens

    def prompts_wait(self):
        return False

    def end(self):
        self.in_flight = self.in_flight if self.dying else {}

    def stale(self, sequences):
        return [sequence for sequence in sequences if not sequence.owns_pages(self.stamps)]


class Cluster:
    """Engines by name, messages in order, time that moves by a `tick` at every event."""

    def __init__(
        self, roles, *, pages, slots=8, chunk=5, backlog=16, cache=CACHE, precisions=(0, 0), placing=None
    ):
        self.pool = np.full((pages, PAGE), -1, np.int64)
        self.stamps = np.zeros(pages, np.uint32)
        self.ledger = PageLedger(pages, self.stamps)
        self.core = Core(Memory(self.ledger, PAGE, cache), slots=slots, backlog=backlog, placing=placing)
        self.models = [HashModel(self.pool, precision) for precision in precisions]
        self.chunk = chunk
        self.bounds = Bounds(VOCAB, pages, PAGE)
        self.now, self.tick = 0.0, 1.0
        self.engines, self.watches, self.inbox = {}, {}, {}
        self.roles, self.ended = dict(roles), []
        self.max_model_len = pages * PAGE
        self.numbers = iter(range(1, 1 << 30))
        for name in self.roles:
            self.start(name)

    def start(self, name):
        prefill, decode = (
            self.models if self.models[0].precision != self.models[1].precision else [self.models[0]] * 2
        )
        self.watches[name] = Watch(self.stamps)
        self.engines[name] = Engine(
            prefill, decode, self.watches[name], page_tokens=PAGE, chunk=self.chunk, max_batch=4
        )
        self.inbox[name] = deque()
        self.event(self.core.add_engine, name, self.roles[name], ())

    def kill(self, name, midstep=True, suspicion=CRASH):
        """End an engine; with `midstep` in the middle of a step, whose outcome is lost."""
        engine, watch = self.engines.pop(name), self.watches[name]
        del self.inbox[name]
        watch.dying = True
        if midstep:
            engine.step()
        self.event(self.core.lose_engine, name, watch.in_flight, suspicion)

    def event(self, act, *args):
        self.now += self.tick
        act(*args, self.now)
        outbox, self.core.outbox = self.core.outbox, []
        for engine, message in outbox:
            self.inbox[engine].append(message)
        self.ended += self.core.ended
        self.core.ended = []
        check(self.core)

    def submit(self, prompt, max_tokens, seed=0, stop_tokens=(), salt="", priority=0, family="", **due):
        timeout, slo_ttft = due.get("timeout"), due.get("slo_ttft")
        generation = Generation(
            prompt, Sampling(seed=seed), max_tokens, stop_tokens, salt, priority, timeout, family
        )
        request = Request(
            id=next(self.numbers),
            generation=generation,
            max_length=min(len(prompt) + max_tokens, self.max_model_len),
            timeline=Timeline(),
            on_tokens=lambda token: None,
            on_end=lambda: None,
            tokens=list(prompt),
            slo_ttft=slo_ttft,
        )
        self.event(self.core.submit, request)
        return request

    def turn(self, name, messages=1 << 30):
        """Let an engine hear some of its messages and compute a step; False if it did nothing."""
        engine, inbox, acted = self.engines[name], self.inbox[name], False
        for _ in range(min(messages, len(inbox))):
            message, acted = inbox.popleft(), True
            check_message(message, self.bounds, engine.room)
            answer = engine.take(message)
            assert (answer is not None) == isinstance(message, Cancel)
            if answer is not None:
                asked = self.core.requests.get(answer.request)
                check_released(answer, self.core.engines[name], asked, self.core.latest)
                self.event(self.core.on_released, answer.request, answer.placement)
        outcome = engine.step()
        for message in outcome:
            if isinstance(message, Step):
                check_step(message, self.core.engines[name], VOCAB, math.inf)
                self.event(self.core.on_step, name, message)
            else:
                check_stale(message, self.core.engines[name])
                self.event(self.core.on_stale, name, message.requests)
        return acted or bool(outcome)

    def finish(self, turns=20000):
        """Run until nothing moves; everything must have ended by then."""
        for _ in range(turns):
            if not any(self.turn(name) for name in list(self.engines)):
                break
        assert not self.core.requests, "a request never ended"
        assert self.ledger.free == self.ledger.total, "a page is still leased"
