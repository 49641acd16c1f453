"""What `import twinfer` offers, and what it costs."""

import subprocess
import sys

import twinfer


def test_the_public_names_are_pinned():
    assert set(twinfer.__all__) == {
        "LLM",
        "CompletionOutput",
        "RequestOutput",
        "SamplingParams",
        "__version__",
    }
    for name in twinfer.__all__:
        assert getattr(twinfer, name) is not None


def test_importing_the_package_loads_no_model_code():
    code = "import sys, twinfer; print('numpy' in sys.modules, 'tokenizers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
