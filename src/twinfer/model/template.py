"""The chat format a model was trained with, as the Jinja template that it brings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from twinfer.errors import ModelError, RequestError, one_line
from twinfer.model.checkpoint import Checkpoint, FolderTokenizer, GgufTokenizer
from twinfer.model.template_process import RenderError, TemplateProcess
from twinfer.model.template_worker import environment

MOST_SOURCE = 1 << 20
"""Characters of a template."""


class ChatTemplate:
    """Renders messages into the text that the model continues.

    The template is a program from the model's file. It runs in a process of its own, in a sandbox, with
    limits on time, memory and output; here it is only parsed.
    """

    def __init__(self, source: str, bos_token: str = "", eos_token: str = "") -> None:
        """Take a template. Raises ModelError if it is not valid Jinja."""
        if len(source) > MOST_SOURCE:
            raise ModelError(f"the chat template is longer than {MOST_SOURCE} characters")
        try:
            environment().parse(source)
        except Exception as error:  # besides its own errors, whatever a wild template makes the parser do
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ModelError(f"the chat template is not valid: {reason}") from None
        self._process = TemplateProcess(source, {"bos_token": bos_token, "eos_token": eos_token})

    def start(self) -> None:
        """Start its process now, so that the first chat need not wait for it."""
        self._process.start()

    def render(self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True) -> str:
        """The prompt for some messages, with the opening of the answer if `add_generation_prompt`.

        Raises:
            RequestError: the template refuses the messages, fails on them, or asks for too much.
        """
        variables = {"messages": messages, "add_generation_prompt": add_generation_prompt, "tools": None}
        try:
            return self._process.render(msgspec.json.encode(variables))
        except (TypeError, ValueError):
            raise RequestError("messages must be plain data, as in JSON", param="messages") from None
        except RenderError as error:
            message = f"the model's chat template cannot render these messages: {error}"
            raise RequestError(message, param="messages") from None

    def close(self) -> None:
        """End its process. Idempotent; happens by itself when nobody holds the template any more."""
        self._process.close()


def load_template(checkpoint: Checkpoint) -> ChatTemplate | None:
    """The chat template that a checkpoint brings, or None.

    Raises:
        ModelError: there is one, but it is not valid.
    """
    source = checkpoint.tokenizer_source
    texts = _gguf_texts(source) if isinstance(source, GgufTokenizer) else _folder_texts(source)
    if texts is None:
        return None
    try:
        return ChatTemplate(*texts)
    except ModelError as error:
        raise ModelError(f"{checkpoint.path}: {one_line(error)}") from None


def _gguf_texts(source: GgufTokenizer) -> tuple[str, str, str] | None:
    template = source.metadata.get("tokenizer.chat_template")
    if not isinstance(template, str):
        return None
    tokens = source.metadata.get("tokenizer.ggml.tokens", [])
    ids = [source.metadata.get(f"tokenizer.ggml.{end}_token_id") for end in ("bos", "eos")]
    bos, eos = (str(tokens[i]) if isinstance(i, int) and 0 <= i < len(tokens) else "" for i in ids)
    return template, bos, eos


def _folder_texts(source: FolderTokenizer) -> tuple[str, str, str] | None:
    if source.chat_template is None:
        return None
    bos, eos = (_content(source.config.get(key)) for key in ("bos_token", "eos_token"))
    return source.chat_template, bos, eos


def _content(token: Any) -> str:
    if isinstance(token, dict):
        token = cast("dict[str, Any]", token).get("content")
    return token if isinstance(token, str) else ""
