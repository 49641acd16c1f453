"""The chat format a model was trained with, as the Jinja template that it brings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn, cast

from jinja2 import Template, TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from twinfer.errors import ModelError, RequestError
from twinfer.model.checkpoint import Checkpoint, FolderTokenizer, GgufTokenizer


class ChatTemplate:
    """Renders messages into the text that the model continues. The template runs in a sandbox."""

    def __init__(self, source: str, bos_token: str = "", eos_token: str = "") -> None:
        """Compile a template. Raises ModelError if it is not valid Jinja."""
        try:
            self._template = _compile(source)
        except TemplateError as error:
            raise ModelError(f"the chat template is not valid: {_line(error)}") from None
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}

    def render(self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True) -> str:
        """The prompt for some messages, with the opening of the answer if `add_generation_prompt`.

        Raises:
            RequestError: the template refuses the messages, or fails on them.
        """
        try:
            return self._template.render(
                messages=messages, add_generation_prompt=add_generation_prompt, tools=None, **self._tokens
            )
        except Exception as error:  # the template is the model's own program and can fail in any way
            message = f"the model's chat template cannot render these messages: {_line(error)}"
            raise RequestError(message, param="messages") from None


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
        raise ModelError(f"{checkpoint.path}: {error}") from None


def _compile(source: str) -> Template:
    # The settings that chat templates are written for.
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = _to_json  # pyright: ignore[reportUnknownMemberType]
    functions = {"raise_exception": _raise_exception, "strftime_now": _strftime_now}
    return environment.from_string(source, globals=functions)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


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
