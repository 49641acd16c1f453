"""The fleet over processes that exist on paper only: who is killed for what."""

import asyncio

import pytest

from twinfer.cluster.plan import EngineSpec
from twinfer.policy.poison import CRASH, KILLED, suspicion
from twinfer.router.fleet import Fleet

SIGKILL = -9


class Slot:
    def __init__(self):
        self.in_flight = {7: 1}

    def open(self, owner, now):
        self.beat = now


class Process:
    pid = 1

    def __init__(self, spec, attempt):
        self.address, self.attempt = f"{spec.id}/{attempt}", attempt

    def on_exit(self, heard):
        self.heard = heard

    def kill(self):
        self.heard(SIGKILL)

    def end(self):
        pass


class Host:
    def __init__(self):
        self.again = asyncio.Event()

    def start(self, spec, attempt):
        if attempt > 1:
            self.again.set()
        return Process(spec, attempt)


def hang(fleet, member):
    fleet.watch()
    member.slot.beat -= 3 * 10**9


def killed_by_somebody(fleet, member):
    member.process.heard(SIGKILL)


def sent_nonsense(fleet, member):
    fleet.distrust(member, "nonsense")


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (hang, KILLED),
        (sent_nonsense, CRASH),
        (killed_by_somebody, KILLED),
    ],
)
def test_an_engine_is_blamed_for_what_it_does_itself(event, expected):
    """And only once: the next process begins without blame."""
    losses = []

    async def scene():
        lost = asyncio.Event()

        def on_loss(member, in_flight):
            losses.append((suspicion(member.exit_code, member.trusted), in_flight))
            lost.set()

        host = Host()
        fleet = Fleet(host, on_loss)
        fleet.start([EngineSpec("decode-0", "decode", [0])], [Slot()])
        member = fleet.members["decode-0"]
        fleet.set_ready(member)
        event(fleet, member)
        await asyncio.wait_for(lost.wait(), 10)
        await asyncio.wait_for(host.again.wait(), 10)
        member.process.heard(SIGKILL)
        fleet.close()

    asyncio.run(scene())
    assert losses == [(expected, {7: 1}), (KILLED, {7: 1})]
