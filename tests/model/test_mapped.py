import numpy as np

from twinfer.model.mapped import map_file, release


def test_released_memory_can_be_read_again(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 64)
    data = map_file(path)
    view = data[256:512].reshape(16, 16)[1:]
    want = view.copy()
    release([view, data, np.zeros(4, np.uint8)])
    assert np.array_equal(view, want)
