import os
from pathlib import Path

import numpy as np
import pytest

from twinfer.errors import ConfigError, EngineError
from twinfer.kv.layout import PAGE_TOKENS, Layout
from twinfer.kv.region import LARGE_PAGE, SharedRegion, enlarge_pages, map_region
from twinfer.kv.sizing import PoolSize, size_pool

LAYOUT = Layout(layers=2, kv_heads=3, head_dim=8, dtype="bf16")


def size(**changes):
    options = {
        "requested": None,
        "default": 100 * LAYOUT.page_bytes,
        "bound": 1 << 30,
        "context_length": 4096,
    }
    return size_pool(LAYOUT, **{"max_model_len": None, **options, **changes})


def test_a_token_takes_keys_and_values_of_all_layers():
    assert LAYOUT.token_bytes == 2 * 2 * 3 * 8 * 2
    assert LAYOUT.page_bytes == PAGE_TOKENS * LAYOUT.token_bytes
    assert Layout(30, 3, 64, "bf16").token_bytes == 23040
    assert Layout(30, 3, 64, "int8").token_bytes == 2 * 30 * 3 * (64 + 4)
    assert Layout(1, 1, 34, "int8").page_bytes == 2 * 16 * (36 + 4)


def test_the_default_pool_is_cut_to_the_memory_and_the_length_to_the_pool():
    assert size() == PoolSize(100, 1600)
    assert size(bound=10 * LAYOUT.page_bytes + 5) == PoolSize(10, 160)
    assert size(context_length=300) == PoolSize(100, 300)
    assert size(max_model_len=50) == PoolSize(100, 50)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"requested": 2 << 30}, "does not fit into the 1024MiB allowed"),
        ({"max_model_len": 5000}, "over the model's context of 4096 tokens"),
        ({"max_model_len": 1601}, "does not fit into a KV pool of 1600 tokens"),
        ({"requested": 10}, "holds 0 pages"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(changes, message):
    with pytest.raises(ConfigError, match=message) as caught:
        size(**changes)
    assert "\n" not in str(caught.value)


def test_a_region_is_the_same_memory_for_all_who_map_it():
    region = SharedRegion("test", 1 << 16)
    other = os.dup(region.fd)
    with (
        map_region(region.fd, region.nbytes, writable=True) as ours,
        map_region(other, region.nbytes, writable=False) as theirs,
    ):
        ours[100:105] = b"hello"
        assert theirs[100:105] == b"hello"
        with pytest.raises(TypeError):
            theirs[0] = 1
    os.close(other)
    region.close()
    region.close()


def test_a_region_that_cannot_be_mapped_is_one_clear_error():
    region = SharedRegion("test", 1 << 12)
    with pytest.raises(EngineError, match="cannot map"):
        map_region(region.fd, 1 << 13, writable=False)
    region.close()


@pytest.mark.parametrize("nbytes", [1 << 12, LARGE_PAGE, 3 * LARGE_PAGE + 12345])
def test_larger_pages_hold_the_same_for_all_who_map_them(nbytes):
    region = SharedRegion("test", nbytes)
    ours = map_region(region.fd, nbytes, writable=True)
    theirs = map_region(region.fd, nbytes, writable=False)
    content = np.random.default_rng(1).bytes(nbytes // 2)
    ours[: len(content)] = content
    assert theirs[: len(content)] == content
    enlarge_pages(ours)
    assert ours == theirs
    assert theirs[: len(content)] == content
    assert not any(theirs[len(content) :])
    ours[-1] = 7
    assert theirs[-1] == 7
    region.close()


def test_regions_lie_where_large_pages_may():
    region = SharedRegion("test", LARGE_PAGE + 1)
    for writable in (True, False, True):
        mapped = np.frombuffer(map_region(region.fd, region.nbytes, writable=writable), np.uint8)
        assert mapped.ctypes.data % LARGE_PAGE == 0
    region.close()


def test_a_region_stays_mapped_as_long_as_it_is_viewed_and_no_longer():
    region = SharedRegion("viewed-test", LARGE_PAGE)

    def mappings():
        return Path("/proc/self/maps").read_text().count("memfd:viewed-test")

    part = map_region(region.fd, region.nbytes, writable=True)[4096:8192]
    assert mappings() == 1
    part[:] = bytes(4096)
    del part
    assert mappings() == 0
    region.close()
