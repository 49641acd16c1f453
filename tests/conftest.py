"""What all tests share: hypothesis profiles and the default model."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("fast", deadline=None, derandomize=True, max_examples=60)
settings.register_profile("thorough", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="session")
def model_path() -> Path:
    """The default model's file, downloaded on first use and cached for good."""
    from twinfer.model.resolve import resolve

    return resolve(None, print)
