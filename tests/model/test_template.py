"""Chat templates: the default model's, the usual extensions, and every failure as a RequestError."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import tiny
from twinfer.errors import ModelError, RequestError
from twinfer.model.load import load
from twinfer.model.template import ChatTemplate, load_template
from twinfer.model.tokenizer import load_tokenizer

GOLDEN = Path(__file__).parent.parent / "golden"
HELLO = [{"role": "user", "content": "hello"}]


def test_default_model_gives_the_golden_prompts(model_path: Path) -> None:
    checkpoint = load(model_path)
    template, tokenizer = load_template(checkpoint), load_tokenizer(checkpoint)
    assert template is not None
    for case in json.loads((GOLDEN / "greedy.json").read_text("utf-8"))["cases"]:
        assert tokenizer.encode(template.render(case["messages"])) == case["prompt_ids"]


def test_generation_prompt_can_be_left_out(tmp_path: Path) -> None:
    template = load_template(load(tiny.write_folder(tmp_path / "f")))
    assert template is not None
    text = "<|im_start|>user\nhello<|im_end|>\n"
    assert template.render(HELLO, add_generation_prompt=False) == text
    assert template.render(HELLO) == text + "<|im_start|>assistant\n"


def test_names_and_functions_that_templates_use() -> None:
    source = (
        "{{ bos_token }}{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}"
        "{{ m.content | tojson }}{% endfor %}{{ strftime_now('%Y')[:2] }}{{ eos_token }}"
    )
    messages = [{"content": "<안녕>'"}, {"content": "no"}]
    assert ChatTemplate(source, "<s>", "</s>").render(messages) == '<s>"<안녕>\'"20</s>'


def test_blocks_leave_no_blank_lines() -> None:
    assert ChatTemplate("{% if true %}\n  {% if true %}\nx\n  {% endif %}\n{% endif %}").render([]) == "x\n"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{{ raise_exception('roles must\n alternate') }}", "roles must alternate"),
        ("{{ messages[0]['content'] + 1 }}", "can only concatenate"),
        ("{{ messages[5].content }}", "has no element 5"),
        ("{{ messages.append(1) }}", "is not callable|not safe|unsafe"),
        ("{{ ''.__class__.__mro__ }}", "unsafe|undefined"),
        ("{% for i in range(10**9) %}{% endfor %}", "Range too big"),
    ],
)
def test_failures_are_the_request_s(source: str, said: str) -> None:
    with pytest.raises(RequestError, match=said) as caught:
        ChatTemplate(source).render(HELLO)
    assert caught.value.param == "messages"
    assert "\n" not in str(caught.value)


def test_broken_template_is_the_model_s(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="the chat template is not valid"):
        ChatTemplate("{% if %}")
    path = tiny.write_gguf(tmp_path / "m.gguf", metadata={"tokenizer.chat_template": "{% if %}"})
    with pytest.raises(ModelError, match=r"m\.gguf: the chat template is not valid"):
        load_template(load(path))


@pytest.mark.parametrize(
    ("described", "rendered"),
    [
        ({}, None),
        ({"chat_template": "one"}, "one"),
        (
            {"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]},
            "d",
        ),
        ({"chat_template": "{{ bos_token }}", "bos_token": {"content": "<s>"}}, "<s>"),
    ],
)
def test_where_folders_keep_it(described: dict[str, Any], rendered: str | None, tmp_path: Path) -> None:
    folder = tiny.write_folder(tmp_path / "f")
    (folder / "tokenizer_config.json").write_text(json.dumps(described))
    template = load_template(load(folder))
    assert (template and template.render([])) == rendered
    (folder / "chat_template.jinja").write_text("file")
    template = load_template(load(folder))
    assert template is not None
    assert template.render([]) == "file"


DOUBLING = "{% set n = namespace(x=['a']) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "more than 1 s"),
        ("{{ 10 ** (10 ** 8) }}", "more than 1 s"),
        (DOUBLING + "{{ n.x == n.x[0] }}{{ (n.x | tojson)[:1] }}", "more than (1 s|1024 MiB)"),
        ("{{ 'a' * 10 ** 10 }}", "more than 1024 MiB"),
        ("{{ '%999999999999d' % 1 }}", "rror|more than"),
        ("{{ 'a'.ljust(10 ** 10) }}", "more than 1024 MiB"),
        ("{% for i in range(99999) %}{{ 'a' * 1000 }}{% endfor %}", "more than 16777216 characters"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recursion"),
        ("{{ raise_exception('x' * 1000000) }}", "x{300}$"),
    ],
    ids=["loops", "power", "sharing", "repeat", "format", "pad", "output", "recursion", "error"],
)
def test_hostile_templates_end(source: str, said: str) -> None:
    template = ChatTemplate(source)
    with pytest.raises(RequestError, match=said):
        template.render(HELLO)
    template.close()


def test_a_template_that_broke_its_process_gets_another() -> None:
    source = "{% if messages %}{{ 10 ** (10 ** (7 + messages | length)) }}{% else %}fine{% endif %}"
    template = ChatTemplate(source)
    for _ in range(2):
        assert template.render([]) == "fine"
        with pytest.raises(RequestError, match="more than 1 s"):
            template.render(HELLO)
    assert template.render([]) == "fine"


@pytest.mark.parametrize("source", ["{{ (" * 5000, "{% if a %}" * 5000, "x" * (1 << 21)], ids=len)
def test_wild_templates_are_refused_at_once(source: str) -> None:
    with pytest.raises(ModelError, match="the chat template is"):
        ChatTemplate(source)


def test_templates_see_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINFER_API_KEY", "secret")
    template = ChatTemplate("x")
    template.start()
    process = template._process._process  # pyright: ignore[reportPrivateUsage]
    assert process is not None
    assert template.render([]) == "x"
    assert b"secret" not in Path(f"/proc/{process.pid}/environ").read_bytes()
    template.close()
    assert not Path(f"/proc/{process.pid}").exists()


def test_messages_must_be_plain() -> None:
    with pytest.raises(RequestError, match="plain data"):
        ChatTemplate("x").render([{"content": object()}])
