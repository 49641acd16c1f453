"""A pytest plugin, `-p tests.native.sanitized`: runs the tests with the native module of TWINFER_NATIVE."""

import importlib.util
import os
import sys

SPEC = importlib.util.spec_from_file_location("twinfer._native", os.environ["TWINFER_NATIVE"])
assert SPEC is not None
assert SPEC.loader is not None
MODULE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(MODULE)
sys.modules["twinfer._native"] = MODULE
