import pytest

from twinfer import _native


@pytest.fixture(scope="session", params=_native.isas())
def isa(request: pytest.FixtureRequest) -> str:
    """Every instruction set that this machine can run, one after the other."""
    return request.param


@pytest.fixture(scope="session")
def checkpoint(model_path):
    """The default model's weights."""
    from twinfer.model.load import load

    return load(model_path)
