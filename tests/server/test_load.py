"""Many clients at once, a quarter of whom hang up midway."""

import asyncio
import contextlib
import random

import httpx

CLIENTS = 64
LEASED = 'twinfer_kv_pages{state="leased"}'


def plan():
    source = random.Random(3)
    for number in range(CLIENTS):
        length = source.choice([3, 17, 60, 150, 400])
        yield (
            {
                "prompt": [source.randrange(300, 40000) for _ in range(length)],
                "max_tokens": source.randrange(8, 40),
                "temperature": (0, 0.8)[number % 2],
                "seed": number,
                "ignore_eos": True,
                "stream": number % 2 == 0,
            },
            number % 4 == 3 - number % 8 // 4,
        )


async def ask(client, body, hang_up):
    """The text of the answer, or None after hanging up."""
    if not body["stream"]:
        posted = client.post("/v1/completions", json=body)
        if not hang_up:
            return (await posted).raise_for_status().json()["choices"][0]["text"]
        with contextlib.suppress(asyncio.TimeoutError, httpx.HTTPError):
            await asyncio.wait_for(posted, 0.3 + len(body["prompt"]) / 200)
        return None
    return await read_stream(client, body, hang_up)


async def read_stream(client, body, hang_up):
    import json

    text = ""
    async with client.stream("POST", "/v1/completions", json=body) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        async for line in response.aiter_lines():
            if line.startswith("data: ") and line != "data: [DONE]":
                text += json.loads(line[6:])["choices"][0]["text"]
                if hang_up:
                    return None
    return text


async def pages(client):
    lines = (await client.get("/metrics")).text.splitlines()
    facts = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {"leases": float(facts["twinfer_kv_leases"]), "leased": float(facts[LEASED])}


async def settled(client):
    for _ in range(200):
        now = await pages(client)
        if now["leases"] == 0:
            return now
        await asyncio.sleep(0.05)
    raise AssertionError(f"pages stay leased: {now}")


async def run(url):
    async with httpx.AsyncClient(
        base_url=url, timeout=120, limits=httpx.Limits(max_connections=None)
    ) as client:
        asked = list(plan())
        answers = await asyncio.gather(*(ask(client, body, hang_up) for body, hang_up in asked))
        after = await settled(client)
        stayed = [(body, text) for (body, hang_up), text in zip(asked, answers, strict=True) if not hang_up]
        alone = [await ask(client, {**body, "stream": False}, False) for body, _ in stayed[::3]]
        return asked, stayed, alone, after


def test_64_clients_with_a_quarter_hanging_up(server):
    asked, stayed, alone, after = asyncio.run(run(server.url))
    assert sum(hang_up for _, hang_up in asked) == CLIENTS // 4
    assert sum(hang_up and body["stream"] for body, hang_up in asked) > 0
    assert sum(hang_up and not body["stream"] for body, hang_up in asked) > 0
    assert all(text for _, text in stayed)
    assert [text for _, text in stayed[::3]] == alone
    assert after["leased"] == 0
