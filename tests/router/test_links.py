"""The router's socket: what has come is heard, whatever is sent meanwhile."""

import asyncio
import time

import msgspec
import zmq

from tests.processes import PATIENCE
from twinfer.messages import Cancel, Hello
from twinfer.router.links import Links


def cross(engine, links, number):
    """Both send; the engine's message is there first, and the loop has no turn to be told of it."""
    engine.send(msgspec.msgpack.encode(Hello(number)))
    time.sleep(0.01)
    links.send("mixed-0/1", Cancel(1, 1))


async def hear_while_sending():
    links, context = Links(), zmq.Context()
    engine = context.socket(zmq.DEALER)
    engine.linger = 0
    engine.identity = b"mixed-0/1"
    engine.connect(links.endpoint)
    try:
        engine.send(msgspec.msgpack.encode(Hello(1)))
        heard = [await links.receive()]
        for number in range(2, 12):
            coming = asyncio.create_task(links.receive())
            await asyncio.sleep(0)  # it waits
            cross(engine, links, number)
            heard.append(await asyncio.wait_for(coming, PATIENCE))
        return heard
    finally:
        links.close()
        links.close()
        context.destroy()


def test_a_message_is_heard_though_sending_took_its_notice():
    assert asyncio.run(hear_while_sending()) == [("mixed-0/1", Hello(number)) for number in range(1, 12)]
