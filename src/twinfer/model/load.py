"""The one door to weights on disk: a GGUF file or a Hugging Face folder becomes a `Checkpoint`."""

from __future__ import annotations

from pathlib import Path

from twinfer.errors import ModelError, one_line
from twinfer.model.checkpoint import Checkpoint
from twinfer.model.gguf_llama import load_gguf
from twinfer.model.huggingface import load_folder


def load(path: Path) -> Checkpoint:
    """Read a model; its weights stay mapped from disk.

    Raises:
        ModelError: the path does not exist, or the model is damaged or not supported; the message is one
            line that begins with the path.
    """
    try:
        if path.is_dir():
            return load_folder(path)
        if path.is_file():
            return load_gguf(path)
    except ModelError as error:
        raise ModelError(f"{path}: {one_line(error)}") from None
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None
    raise ModelError(f"{path}: no such file or folder; a GGUF file or a Hugging Face folder is needed")
