"""Prompts on decode engines: when, in what chunks, and that nothing else changes."""

from hypothesis import given
from hypothesis import strategies as st

from twinfer.messages import Prefill, Sampling, Step
from twinfer.policy.pages import PageLedger
from twinfer.router.core import Core
from twinfer.router.generation import Generation
from twinfer.router.memory import Cache, Memory
from twinfer.router.placing import Placing
from twinfer.router.request import Request
from twinfer.timeline import Timeline

from .simulated import VOCAB, Cluster, expected

SPLIT = {"prefill-0": "prefill", "decode-0": "decode"}
PROMPTS = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=30)
REQUESTS = st.lists(st.tuples(PROMPTS, st.integers(1, 25)), min_size=1, max_size=12)


@given(REQUESTS, st.integers(20, 60), st.integers(1, 9), st.sampled_from([(0, 0), (1, 2)]), st.data())
def test_answers_do_not_depend_on_where_prompts_are_computed(asked, pages, chunk, precisions, data):
    cache = Cache(root="model", same_precision=precisions == (0, 0))
    cluster = Cluster(
        SPLIT, pages=pages, chunk=chunk, cache=cache, precisions=precisions, placing=Placing(chunk, None)
    )
    requests = []
    for prompt, most in asked:
        # As if a long chunk were being computed, or nothing.
        view = cluster.core.engines["prefill-0"]
        view.stepped, view.costs.token = cluster.now + data.draw(st.sampled_from([0.0, 1e6])), 1.0
        requests.append(cluster.submit(prompt, most))
        for name in data.draw(st.lists(st.sampled_from(sorted(SPLIT)), max_size=3)):
            cluster.turn(name)
    cluster.finish()
    for request in requests:
        assert request.tokens == expected(request.generation, request.max_length, precisions)


def request(number, length):
    prompt = [5] * length
    return Request(
        id=number,
        generation=Generation(prompt, Sampling(), 9),
        max_length=length + 9,
        timeline=Timeline(),
        on_tokens=lambda token: None,
        on_end=lambda: None,
        tokens=list(prompt),
    )


class Deployment:
    """A core with a prefill and a decode engine whose costs it has seen, and a clock by hand."""

    def __init__(self, slo_tpot=None, placing=True):
        ledger = PageLedger(1000)
        bounds = Placing(512, slo_tpot) if placing else None
        self.core = Core(Memory(ledger, 16, Cache()), slots=64, backlog=1024, placing=bounds)
        self.core.add_engine("prefill-0", "prefill", (), 0.0)
        self.core.add_engine("decode-0", "decode", (), 0.0)
        self.core.on_step("prefill-0", Step([], [], [], [], 1.0, 1.1, 500, 0, 0), 1.1)
        for batch in (1, 2, 3, 4) * 5:
            seconds = 0.003 + 0.001 * batch
            self.core.on_step("decode-0", Step([], [], [], [], 2.0, 2.0 + seconds, 0, batch, 0), 2.1)
        self.numbers = iter(range(1, 99))

    def submit(self, length, now):
        self.core.submit(request(next(self.numbers), length), now)

    def sent(self):
        """Where prompts went, and in what chunks."""
        outbox, self.core.outbox = self.core.outbox, []
        return [(engine, message.chunk) for engine, message in outbox if isinstance(message, Prefill)]


def test_a_short_prompt_does_not_wait_for_a_long_chunk_to_end():
    it = Deployment()
    it.submit(2000, 10.0)
    it.submit(30, 10.01)
    assert it.sent() == [("prefill-0", 0), ("decode-0", 512)]
    assert it.core.tallies.placed == 1


def test_but_for_a_short_rest_of_it():
    it = Deployment()
    it.submit(2000, 10.0)
    it.submit(30, 10.1)
    assert it.sent() == [("prefill-0", 0), ("prefill-0", 0)]


def test_with_a_target_its_chunks_are_small():
    it = Deployment(slo_tpot=0.02)
    it.submit(2000, 10.0)
    it.submit(30, 10.01)
    [_, (engine, chunk)] = it.sent()
    assert engine == "decode-0"
    assert 0.004 + chunk * 0.0004 <= 0.02
    assert chunk >= 20


def test_one_prompt_at_a_time_and_none_while_others_wait():
    it = Deployment()
    it.submit(2000, 10.0)
    it.submit(30, 10.01)
    it.submit(30, 10.011)
    assert [engine for engine, _ in it.sent()] == ["prefill-0", "decode-0", "prefill-0"]
    it = Deployment()
    it.submit(2000, 10.0)
    it.submit(4000, 10.001)
    assert len(it.core.queue) == 1
    it.submit(30, 10.01)
    assert [engine for engine, _ in it.sent()] == ["prefill-0", "prefill-0"]


def test_never_where_it_is_not_asked_for():
    it = Deployment(placing=False)
    it.submit(2000, 10.0)
    it.submit(30, 10.01)
    assert it.sent() == [("prefill-0", 0), ("prefill-0", 0)]
