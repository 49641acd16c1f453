"""What the router counts, for Prometheus. All names start with `twinfer_`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from twinfer.messages import Usage
from twinfer.router.core import Core
from twinfer.router.request import Request, State

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
FINE_SECONDS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
NOTHING = Usage([], 0, 0.0, 0.0, 0.0)


class Metrics:
    """Counters and histograms of ended requests, and the state of `core` when scraped."""

    def __init__(self, core: Core) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "twinfer_requests", "Requests that ended, by reason", ["reason"], registry=self.registry
        )
        self._prompt = Counter("twinfer_prompt_tokens", "Tokens of ended prompts", registry=self.registry)
        self._cached = Counter(
            "twinfer_cached_prompt_tokens", "Prompt tokens found in the prefix cache", registry=self.registry
        )
        self._answer = Counter("twinfer_generated_tokens", "Tokens of ended answers", registry=self.registry)
        self._queueing = self._histogram("twinfer_queueing_seconds", "Arrival to first kernel", SECONDS)
        self._ttft = self._histogram("twinfer_ttft_seconds", "Arrival to first token", SECONDS)
        self._tpot = self._histogram("twinfer_tpot_seconds", "Mean gap between tokens", FINE_SECONDS)
        self._handover = self._histogram(
            "twinfer_handover_seconds", "Prefill's last kernel to the first decode step", FINE_SECONDS
        )
        self.registry.register(CoreCollector(core))

    def observe(self, request: Request) -> None:
        """Count a request that has ended."""
        times = request.timeline
        self._requests.labels(request.finish_reason or "error").inc()
        self._prompt.inc(request.prompt_tokens)
        self._cached.inc(request.cached or 0)
        self._answer.inc(len(request.tokens) - request.prompt_tokens)
        if times.first_token:
            self._queueing.observe(times.queueing)
            self._ttft.observe(times.ttft)
        if times.tokens > 1:
            self._tpot.observe(times.tpot)
        if times.decode_began:
            self._handover.observe(times.handover)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, buckets=buckets, registry=self.registry)


class CoreCollector(Collector):
    """Reads the core's state at every scrape, so that nothing is kept twice."""

    def __init__(self, core: Core, clock: Callable[[], float] = time.monotonic) -> None:
        self._core = core
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """Gauges of requests and pages, counters of engines."""
        core = self._core
        requests = GaugeMetricFamily("twinfer_requests_now", "Requests by state", labels=["state"])
        states = [request.state for request in core.requests.values()]
        for state in State:
            if state is not State.DONE:
                requests.add_metric([state.name.lower()], states.count(state))
        yield requests
        yield from self._pages()
        yield from self._tallies()
        yield from self._engines()

    def _pages(self) -> Iterator[Metric]:
        ledger = self._core.memory.ledger
        pages = GaugeMetricFamily("twinfer_kv_pages", "Pages of the KV pool by state", labels=["state"])
        pages.add_metric(["free"], ledger.free - ledger.cached)
        pages.add_metric(["cached"], ledger.cached)
        pages.add_metric(["leased"], ledger.total - ledger.free)
        yield pages
        yield CounterMetricFamily("twinfer_kv_evictions", "Cached pages given up", value=ledger.evictions)
        yield GaugeMetricFamily("twinfer_kv_leases", "Requests that hold pages", value=ledger.leases)
        oldest = self._core.oldest_lease(self._clock())
        yield GaugeMetricFamily("twinfer_kv_oldest_lease_seconds", "Age of the oldest lease", value=oldest)

    def _tallies(self) -> Iterator[Metric]:
        tallies = self._core.tallies
        for name, text, value in (
            ("preemptions", "Requests whose pages were taken for others", tallies.preemptions),
            ("prompts_on_decode", "Prompts that a decode engine computed sooner", tallies.placed),
            ("moves", "Requests moved to another engine while running", tallies.moves),
            ("engine_losses", "Engines that died or hung", tallies.losses),
            ("recomputed_tokens", "Tokens computed again after a loss", tallies.recomputed_tokens),
            ("stale_pages", "Requests that found a page with other content", tallies.stale),
            ("bad_messages", "Messages that were malformed or could not be true", tallies.bad_messages),
        ):
            yield CounterMetricFamily(f"twinfer_{name}", text, value=value)

    def _engines(self) -> Iterator[Metric]:
        labels = ["engine", "role"]
        steps = CounterMetricFamily("twinfer_engine_steps", "Steps computed", labels=labels)
        busy = CounterMetricFamily("twinfer_engine_busy_seconds", "Time inside steps", labels=labels)
        tokens = CounterMetricFamily("twinfer_engine_tokens", "Tokens computed", labels=[*labels, "phase"])
        for view in self._core.engines.values():
            key = [view.id, view.role]
            steps.add_metric(key, view.work.steps)
            busy.add_metric(key, view.work.busy)
            tokens.add_metric([*key, "prefill"], view.work.prompt_tokens)
            tokens.add_metric([*key, "decode"], view.work.decode_tokens)
        yield from (steps, busy, tokens)
        yield from self._cores()

    def _cores(self) -> Iterator[Metric]:
        labels = ["engine", "core", "lent"]
        text = "Processor time of an engine's threads by core; lent is whether another engine lends it"
        seconds = CounterMetricFamily("twinfer_core_seconds", text, labels=labels)
        labels = ["engine"]
        text = "Decode steps that waited for their time"
        steps = CounterMetricFamily("twinfer_paced_steps", text, labels=labels)
        text = "Time that they waited, their cores being lent"
        waited = CounterMetricFamily("twinfer_paced_seconds", text, labels=labels)
        text = "Time that they began later than they should"
        late = CounterMetricFamily("twinfer_late_seconds", text, labels=labels)
        latest = GaugeMetricFamily("twinfer_latest_seconds", "How late the latest of them was", labels=labels)
        for view in self._core.engines.values():
            for core, lent, value in view.core_seconds:
                seconds.add_metric([view.id, str(core), str(lent).lower()], value)
            usage = view.usage or NOTHING
            steps.add_metric([view.id], usage.paced_steps)
            waited.add_metric([view.id], usage.paced_seconds)
            late.add_metric([view.id], usage.late_seconds)
            latest.add_metric([view.id], usage.latest)
        yield from (seconds, steps, waited, late, latest)
