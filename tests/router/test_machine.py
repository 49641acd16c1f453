"""The scheduler as a state machine: hypothesis looks for an order of events that loses something."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from twinfer.policy.poison import CRASH, GUILTY, KILLED
from twinfer.router.check import check
from twinfer.router.memory import Cache
from twinfer.router.placing import Placing

from .simulated import PAGE, VOCAB, Cluster, expected

PAGES = 14
# Few different tokens, so that prompts share prefixes; long ones press on the pool.
PROMPTS = st.lists(st.integers(0, 1), min_size=1, max_size=30)
NAMES = ("a", "b", "c")
ROLES = st.sampled_from(["prefill", "decode", "mixed"])


class Scheduler(RuleBasedStateMachine):
    """Clients, engines and misfortune act on one cluster in any order."""

    @initialize(
        roles=st.lists(ROLES, min_size=1, max_size=3),
        shared=st.booleans(),
        same_precision=st.booleans(),
        chunk=st.integers(0, 7),
        slots=st.integers(1, 5),
        placing=st.booleans(),
    )
    def begin(self, roles, shared, same_precision, chunk, slots, placing):
        self.precisions = (0, 0) if same_precision else (1, 2)
        cache = Cache(root="model" if shared else None, same_precision=same_precision)
        self.cluster = Cluster(
            dict(zip(NAMES, roles, strict=False)),
            pages=PAGES,
            slots=slots,
            chunk=chunk,
            cache=cache,
            precisions=self.precisions,
            placing=Placing(max(1, chunk), None) if placing else None,
        )
        self.requests, self.cancelled = [], set()

    @rule(
        prompt=PROMPTS,
        most=st.integers(1, 25),
        stops=st.booleans(),
        salt=st.sampled_from(["", "x"]),
        priority=st.integers(-1, 1),
        copies=st.integers(1, 3),
        slo_ttft=st.sampled_from([None, 3.0, 30.0]),
    )
    def submit(self, prompt, most, stops, salt, priority, copies, slo_ttft):
        stop_tokens = tuple(range(0, VOCAB, 7)) if stops else ()
        family = str(len(self.requests)) if copies > 1 else ""
        for seed in range(copies):
            self.requests.append(
                self.cluster.submit(
                    prompt, most, seed, stop_tokens, salt, priority, family, slo_ttft=slo_ttft
                )
            )

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def go_on_from_an_answer(self, data):
        """The next turn of a chat finds its pages in the cache."""
        before = data.draw(st.sampled_from(self.requests))
        if len(before.tokens) < PAGES * PAGE - 1:
            self.requests.append(self.cluster.submit([*before.tokens], 6))

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def cancel(self, data):
        request = data.draw(st.sampled_from(self.requests))
        self.cancelled.add(request.id)
        self.cluster.event(self.cluster.core.cancel, request.id)

    @precondition(lambda self: self.cluster.engines)
    @rule(data=st.data(), messages=st.integers(0, 3))
    def turn_of_one(self, data, messages):
        self.cluster.turn(self._engine(data), messages)

    @rule(times=st.integers(1, 6))
    def turns_of_all(self, times):
        for _ in range(times):
            for name in list(self.cluster.engines):
                self.cluster.turn(name)

    @precondition(lambda self: self.cluster.engines)
    @rule(data=st.data(), midstep=st.booleans(), suspicion=st.sampled_from([CRASH, KILLED]))
    def kill(self, data, midstep, suspicion):
        self.cluster.kill(self._engine(data), midstep, suspicion)

    @precondition(lambda self: len(self.cluster.engines) < len(self.cluster.roles))
    @rule(data=st.data())
    def start(self, data):
        gone = sorted(self.cluster.roles.keys() - self.cluster.engines.keys())
        self.cluster.start(data.draw(st.sampled_from(gone)))

    @precondition(lambda self: self.cluster.engines)
    @rule(data=st.data(), draining=st.booleans())
    def drain_or_resume(self, data, draining):
        self.cluster.event(self.cluster.core.set_draining, self._engine(data), draining)

    @precondition(lambda self: self.cluster.engines)
    @rule(data=st.data(), role=ROLES)
    def change_role(self, data, role):
        self.cluster.event(self.cluster.core.set_role, self._engine(data), role)

    @precondition(lambda self: self.cluster.core.memory.ledger.leases)
    @rule(data=st.data())
    def overwrite_a_page(self, data):
        ledger = self.cluster.ledger
        lessee = data.draw(st.sampled_from(sorted(ledger.lessees)))
        page = data.draw(st.sampled_from(ledger.lease(lessee)))
        self.cluster.stamps[page] += 1
        self.cluster.pool[page] = -7

    @invariant()
    def nothing_is_held_twice(self):
        if hasattr(self, "cluster"):
            check(self.cluster.core)

    def teardown(self):
        if not hasattr(self, "cluster"):
            return
        for name in self.cluster.roles:
            if name not in self.cluster.engines:
                self.cluster.start(name)
            self.cluster.event(self.cluster.core.set_draining, name, False)
        self.cluster.finish()
        for request in self.requests:
            if request.id in self.cancelled and request.finish_reason == "cancelled":
                continue
            if request.finish_reason == "error":
                assert request.suspicion >= GUILTY
                continue
            wanted = expected(request.generation, request.max_length, self.precisions)
            assert request.finish_reason in ("stop", "length")
            assert request.tokens == wanted

    def _engine(self, data):
        return data.draw(st.sampled_from(sorted(self.cluster.engines)))


TestScheduler = Scheduler.TestCase
TestScheduler.settings = settings(stateful_step_count=40)
