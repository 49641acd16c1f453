"""Models, health, metrics, engines, version, tokenize and detokenize."""

from __future__ import annotations

import httpx
import openai


def test_models(client: openai.OpenAI) -> None:
    (card,) = client.models.list().data
    assert (card.id, card.object, card.owned_by) == ("fake", "model", "twinfer")
    assert client.models.retrieve("fake").id == "fake"


def test_health_ready_version(http: httpx.Client) -> None:
    assert http.get("/health").json() == {"status": "ok"}
    assert http.get("/ready").json() == {"status": "ready"}
    assert http.get("/version").json()["version"]
    assert http.head("/health").status_code == 200


def test_metrics(http: httpx.Client) -> None:
    response = http.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    assert "twinfer_requests_total 1.0" in response.text


def test_engines(http: httpx.Client) -> None:
    engines = http.get("/admin/engines").json()["engines"]
    assert [engine["role"] for engine in engines] == ["prefill", "decode"]
    assert http.post("/admin/engines").status_code == 403


def test_tokenize_and_back(http: httpx.Client) -> None:
    body = http.post("/tokenize", json={"prompt": "héllo"}).json()
    assert body == {"tokens": list("héllo".encode()), "count": 6, "max_model_len": 512}
    assert http.post("/detokenize", json={"tokens": body["tokens"]}).json() == {"prompt": "héllo"}
    assert http.post("/tokenize", json={"prompt": ""}).json()["tokens"] == []


def test_tokenize_a_chat(http: httpx.Client) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    body = http.post("/tokenize", json={"messages": messages}).json()
    assert bytes(body["tokens"]).decode() == "<user>Hi\n<assistant>"
    body = http.post("/tokenize", json={"messages": messages, "add_generation_prompt": False}).json()
    assert bytes(body["tokens"]).decode() == "<user>Hi\n"
