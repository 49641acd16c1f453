"""Writes the corpus: `python -m tests.fuzz.seeds`. Findings are added to it by hand, as `found-…`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests import tiny
from tests.examples import FROM_ENGINE, TO_ENGINE
from tests.fuzz.targets import FOLDER_FILES, FOLDER_SIZES, good_folder

CORPUS = Path(__file__).parent / "corpus"
SIZES = {name: size for name, size in FOLDER_SIZES.items() if name != "dtype"}
TEMPLATES = [
    tiny.TEMPLATE,
    "{% set ns = namespace(a=1) %}{% macro f(x) %}{{ x|trim }}{% endmacro %}{{ f(messages[0].content) }}",
    "{% for m in messages if m.role == 'user' %}{{ m | tojson(indent=2) }}{% break %}{% else %}-{% endfor %}",
    "{{ raise_exception('no') }}",
    "{{ strftime_now('%d %b %Y') }}{{ 'a' * 10 }}{{ messages[1:] }}{# note #}{% raw %}{{{% endraw %}",
    "{{ ''.__class__.__mro__ }}",
    "{{ 9 ** 9 ** 9 }}",
]
MESSAGES = [
    b"[]",
    b'[{"role":"user","content":"hello"}]',
    b'[{"role":"system","content":null},{"role":"user","content":[{"type":"text","text":"\\u0000"}]}]',
    b'[{"role":{"a":[1,2.5,true]},"name":"x","content":"<|im_end|>"}]',
]


BODIES = [
    (
        0,
        b'{"model":"fake","prompt":"hello","max_tokens":3,"stream":true,"stream_options":{"include_usage":true}}',
    ),
    (
        0,
        b'{"prompt":["a",[1,2]],"n":2,"temperature":0.5,"top_p":0.9,"top_k":3,"seed":7,"stop":["x"],"echo":true}',
    ),
    (
        1,
        b'{"messages":[{"role":"user","content":"hello"}],"stop":"w","max_completion_tokens":4,"priority":-1}',
    ),
    (
        1,
        b'{"messages":[{"role":"user","content":[{"type":"text","text":"\\ud83e"}]}],"stream":true,"timeout":1.5}',
    ),
    (2, b'{"prompt":"hello","add_special_tokens":false}'),
    (2, b'{"messages":[{"role":"user","content":"hello"}]}'),
    (3, b'{"tokens":[72,105]}'),
]


def seeds() -> Iterator[tuple[str, bytes]]:
    """Every entry of the corpus: where it lies, and what it holds."""
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("F32", "Q8_0"):
            sizes = {**SIZES, "hidden": 32, "ffn": 32} if kind == "Q8_0" else SIZES
            yield f"gguf/{kind}", tiny.write_gguf(Path(folder) / kind, kind, **sizes).read_bytes()
    yield "gguf/empty", b"GGUF\x03\0\0\0" + bytes(16)
    for number, name in enumerate(FOLDER_FILES):
        file = good_folder() / name
        yield f"folder/{name}", bytes([number]) + (file.read_bytes() if file.exists() else OTHER[name])
    for number, source in enumerate(TEMPLATES):
        yield f"template/parsed-{number}", b"P" + source.encode()
        yield f"template/run-{number}", b"R" + source.encode()
    for number, messages in enumerate(MESSAGES):
        yield f"template/messages-{number}", b"M" + messages
    for first, messages in ((b"\0", FROM_ENGINE), (b"\1", TO_ENGINE)):
        for number, message in enumerate(messages):
            name = f"{type(message).__name__.lower()}-{number}"
            yield f"messages/{name}", first + msgspec.msgpack.encode(message)
    for number, (route, body) in enumerate(BODIES):
        yield f"bodies/{number}", bytes([route]) + body


OTHER = {
    "model.safetensors.index.json": b'{"metadata":{},"weight_map":{"a":"shard.safetensors"}}',
    "chat_template.jinja": tiny.TEMPLATE.encode(),
}

if __name__ == "__main__":
    for name, content in seeds():
        path = CORPUS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
