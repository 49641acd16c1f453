"""From what the user calls a model to the path of its file or folder."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from twinfer.errors import ModelError
from twinfer.model.default import DEFAULT_NAME, SMOLLM2, cache_folder, fetch
from twinfer.model.hub import download

HUB_NAME = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?::(?P<file>[^:]+\.gguf))?")


def resolve(model: str | None, notify: Callable[[str], None]) -> Path:
    """The path of a model: the default one (None or "smollm2"), a file or folder, or a hub name.

    What has to be downloaded is, and `notify` is told so in one line before.

    Raises:
        ModelError: there is no such model, or it cannot be fetched; the message says what was tried.
    """
    if model is None or model == DEFAULT_NAME:
        return fetch(SMOLLM2, cache_folder(), notify)
    path = os.path.expanduser(model)
    if os.path.exists(path):
        return Path(path)
    name = HUB_NAME.fullmatch(model)
    # "./a", "../a" and "a/b.gguf" are meant as paths, and no hub name begins with a dot.
    if name is not None and not model.startswith(".") and not name["repo"].endswith(".gguf"):
        try:
            return download(name["repo"], name["file"], notify)
        except ModelError as error:
            raise ModelError(f"'{model}' is no file or folder here; as a hub name: {error}") from None
    raise ModelError(
        f"there is no model '{model}': it is neither '{DEFAULT_NAME}', nor an existing GGUF file or "
        "Hugging Face folder, nor a hub name like 'org/name' or 'org/name:file.gguf'"
    )
