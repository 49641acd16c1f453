"""Models from a hub that speaks Hugging Face's protocol, through huggingface_hub and its cache.

HF_ENDPOINT names another hub, HF_HUB_OFFLINE forbids the network, HF_TOKEN opens private models.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from twinfer.errors import ModelError

DEFAULT_ENDPOINT = "https://huggingface.co"
FOLDER_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "model.safetensors.index.json",
)
PREFERRED_GGUF = ("Q4_1", "Q4_0", "Q8_0")


class Choice(msgspec.Struct, frozen=True):
    """What to take of a repository: the files, and the one that is the model if it is a GGUF file."""

    files: tuple[str, ...]
    gguf: str | None = None


def download(repo: str, file: str | None, notify: Callable[[str], None]) -> Path:
    """A hub model's folder, or its GGUF file (`file`, or the one that suits best), downloaded if need be.

    Without a network, what an earlier download left in the cache is used.

    Raises:
        ModelError: the model is not there, not allowed, ambiguous, or the hub cannot be reached.
    """
    offline = _offline()
    names = None if offline else _remote_names(repo)
    local = names is None
    if names is None:
        names = _cached_names(repo)
    if names is None:
        why = "HF_HUB_OFFLINE is set" if offline else f"the hub at {_endpoint()} cannot be reached"
        raise ModelError(f"model '{repo}' is not in the cache, and {why}")
    choice = choose(repo, names, file)
    if not local:
        notify(f"fetching {repo} from {_endpoint()}")
    folder = _snapshot(repo, choice, local)
    return folder / choice.gguf if choice.gguf else folder


def choose(repo: str, names: Collection[str], file: str | None) -> Choice:
    """Pick from the file names of a repository: the GGUF file asked for, else safetensors, else a GGUF file.

    Raises:
        ModelError: the file asked for is not there, or several would do, or none.
    """
    ggufs = sorted(name for name in names if name.endswith(".gguf"))
    if file is not None:
        if file not in names:
            raise ModelError(f"model '{repo}' has no file '{file}'; its GGUF files: {_listed(ggufs)}")
        return Choice((file,), file)
    weights = sorted(name for name in names if name.startswith("model") and name.endswith(".safetensors"))
    if "config.json" in names and weights:
        if "model.safetensors" in weights:
            weights = ["model.safetensors"]
        return Choice((*(name for name in FOLDER_FILES if name in names), *weights))
    for suited in (ggufs, *([g for g in ggufs if tag in g.upper()] for tag in PREFERRED_GGUF)):
        if len(suited) == 1:
            return Choice((suited[0],), suited[0])
    if ggufs:
        raise ModelError(
            f"model '{repo}' has several GGUF files; name one as '{repo}:FILE': {_listed(ggufs)}"
        )
    raise ModelError(f"model '{repo}' has neither config.json with model*.safetensors nor a GGUF file")


def _listed(names: list[str]) -> str:
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "") if names else "none"


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or DEFAULT_ENDPOINT


def _offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def _remote_names(repo: str) -> list[str] | None:
    """The repository's file names, or None if the hub cannot be reached."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        found = HfApi(endpoint=_endpoint()).model_info(repo)
    except OfflineModeIsEnabled:
        return None
    except HfHubHTTPError as error:
        if getattr(error.response, "status_code", 0) >= 500:
            return None
        raise ModelError(_refusal(repo, error)) from None
    except ValueError as error:
        raise ModelError(f"'{repo}' is not a valid hub name: {_line(error)}") from None
    except Exception:  # whatever HTTP library is underneath has its own errors for a dead network
        return None
    return [sibling.rfilename for sibling in found.siblings or ()]


def _cached_names(repo: str) -> list[str] | None:
    """The file names of the snapshot in huggingface_hub's cache, or None."""
    from huggingface_hub import constants

    cached = Path(constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}"
    try:
        snapshot = cached / "snapshots" / (cached / "refs" / "main").read_text().strip()
    except OSError:
        return None
    return [str(path.relative_to(snapshot)) for path in snapshot.rglob("*") if path.is_file()] or None


def _snapshot(repo: str, choice: Choice, local: bool) -> Path:
    from huggingface_hub import snapshot_download  # pyright: ignore[reportUnknownVariableType]
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        folder = snapshot_download(
            repo, allow_patterns=list(choice.files), local_files_only=local, endpoint=_endpoint()
        )
    except HfHubHTTPError as error:
        raise ModelError(_refusal(repo, error)) from None
    except LocalEntryNotFoundError:
        why = "the download is incomplete in the cache" if local else "the connection was lost"
        raise ModelError(f"model '{repo}' cannot be fetched from {_endpoint()}: {why}") from None
    except OSError as error:
        full = error.errno == errno.ENOSPC
        raise ModelError(
            f"model '{repo}' cannot be stored: {'no space left on the device' if full else _line(error)}"
        ) from None
    except Exception as error:  # whatever HTTP library is underneath has its own errors
        raise ModelError(f"model '{repo}' cannot be fetched from {_endpoint()}: {_line(error)}") from None
    return Path(folder)


def _refusal(repo: str, error: Exception) -> str:
    from huggingface_hub.errors import DisabledRepoError, GatedRepoError, RepositoryNotFoundError

    if isinstance(error, GatedRepoError):
        return f"model '{repo}' is gated: accept its terms at {_endpoint()}/{repo} and set HF_TOKEN"
    if isinstance(error, RepositoryNotFoundError):
        return f"there is no model '{repo}' at {_endpoint()}, or it is private and HF_TOKEN does not open it"
    if isinstance(error, DisabledRepoError):
        return f"model '{repo}' has been disabled at {_endpoint()}"
    return f"the hub at {_endpoint()} refuses model '{repo}': {_line(error)}"


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
