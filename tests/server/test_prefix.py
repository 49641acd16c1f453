"""A chat's next turn finds the turns before it in the cache."""

import httpx
import openai

SYSTEM = {"role": "system", "content": "You are a patient teacher of geography. " * 8}


def ask(client, messages, **options):
    return client.chat.completions.create(
        model="smollm2", messages=messages, temperature=0, max_tokens=30, **options
    )


def test_the_next_turn_computes_only_what_is_new(client: openai.OpenAI):
    messages = [SYSTEM, {"role": "user", "content": "Which river runs through Cairo?"}]
    first = ask(client, messages, extra_body={"cache_salt": "turns"})
    messages += [
        {"role": "assistant", "content": first.choices[0].message.content},
        {"role": "user", "content": "And through London?"},
    ]
    second = ask(client, messages, extra_body={"cache_salt": "turns"})
    cached = second.usage.prompt_tokens_details.cached_tokens
    assert first.usage.prompt_tokens_details.cached_tokens == 0
    assert first.usage.prompt_tokens // 16 * 16 <= cached < second.usage.prompt_tokens
    other = ask(client, messages, extra_body={"cache_salt": "another tenant"})
    assert other.usage.prompt_tokens_details.cached_tokens == 0
    assert other.choices[0].message.content == second.choices[0].message.content


def test_streams_report_it_too_and_the_metrics_count_it(client: openai.OpenAI, server):
    messages = [SYSTEM, {"role": "user", "content": "Name a volcano."}]
    ask(client, messages)
    *_, last = ask(client, messages, stream=True, stream_options={"include_usage": True})
    assert last.usage.prompt_tokens_details.cached_tokens > 0
    metrics = httpx.get(f"{server.url}/metrics").text
    line = next(x for x in metrics.splitlines() if x.startswith("twinfer_cached_prompt_tokens_total"))
    assert float(line.split()[1]) >= last.usage.prompt_tokens_details.cached_tokens


def test_a_priority_out_of_range_is_refused(server):
    body = {"prompt": "a", "priority": 10**30}
    response = httpx.post(f"{server.url}/v1/completions", json=body)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "priority"
