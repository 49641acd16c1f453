"""The command line, as a user meets it."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import twinfer

from .processes import PATIENCE

COMMAND = [sys.executable, "-m", "twinfer.cli"]
SMALL = ["--kv-pool-size", "64MiB", "--max-tokens", "100"]
QUESTION = "What is the capital of France?"
PARIS = "The capital of France is Paris."


def twin(*arguments: str, text: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, *arguments], input=text, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert "Traceback" not in done.stderr
    if check:
        assert done.returncode == 0, done.stderr
    return done


def refusal(*arguments: str) -> str:
    """The one line with which these arguments are refused."""
    done = twin(*arguments, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("twinfer: error: ")
    return line.removeprefix("twinfer: error: ")


def test_version_and_help() -> None:
    assert twin("--version").stdout == f"twinfer {twinfer.__version__}\n"
    assert all(command in twin("--help").stdout for command in ("serve", "generate", "chat", "info"))


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys, twinfer.cli.commands; print([name for name in ('numpy', 'uvicorn', 'zmq') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("command", ["serve", "generate", "chat", "info"])
def test_help_of_commands(command: str) -> None:
    assert "--model" in twin(command, "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve", "--prefill-engines", "0"], "prefill_engines must be at least 1, not 0"),
        (["serve", "--kv-pool-size", "lots"], "'lots' is not a size; write for example 512MiB or 2GiB"),
        (["serve", "--kv-dtype", "f8"], "kv_dtype must be one of auto, f32, bf16, int8, not 'f8'"),
        (
            ["serve", "--tensor-parallel-size", "2"],
            "tensor_parallel_size=2 is not supported; only 1 is, for now",
        ),
        (["serve", "--max-queue", "0"], "max_queue must be at least 1, not 0"),
        (["serve", "--max-body-size", "big"], "'big' is not a size; write for example 512MiB or 2GiB"),
        (
            ["serve", "--read-timeout", "0"],
            "read_timeout must be over 0 and at most 1000000 seconds, not 0.0",
        ),
        (["serve", "--request-timeout", "-1"], "request_timeout must be over 0"),
        (["serve", "--api-key", "two words"], "an API key must be printable ASCII characters without spaces"),
        (["serve", "--api-key-file", "/no/such"], "cannot read the API keys in /no/such: No such file"),
        (["serve", "--cors-origin", "example.org"], "'example.org' is not an origin"),
        (["serve", "--ssl-certfile", "/no/such"], "--ssl-certfile and --ssl-keyfile are needed both"),
        (["serve", "--port", "70000"], "port must be from 0 to 65535, not 70000"),
        (["serve", "--host", "no.such.host.invalid"], "'no.such.host.invalid' is not a known name"),
        (["serve", "--host", "192.0.2.1"], "192.0.2.1 is not an address of this machine"),
        (["serve", "--port", "0", "--model", "/no/such.gguf"], "/no/such.gguf"),
        (["info", "--model", "/no/such.gguf"], "/no/such.gguf"),
        (["generate", ""], "the prompt is empty"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_refusals_are_one_line(arguments: list[str], message: str) -> None:
    assert message in refusal(*arguments)


def test_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = refusal("serve", "--port", str(port))
    assert message == f"port {port} on 127.0.0.1 is already in use; choose another with --port"


def test_generate(model_path: Path) -> None:
    done = twin("generate", QUESTION, "--chat", "--temperature", "0", *SMALL)
    assert done.stdout == f"{PARIS}\n"
    assert done.stderr == ""


def test_generate_reads_stdin_and_stops(model_path: Path) -> None:
    arguments = ["--temperature", "0", "--stop", " is Paris", "--colocate", *SMALL]
    chat = f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n"
    assert twin("generate", "-", *arguments, text=chat).stdout == "The capital of France\n"


def test_generate_refuses_bad_settings() -> None:
    assert "temperature must be from 0 to 2" in refusal("generate", "x", "--temperature", "3")


def test_chat_through_a_pipe(model_path: Path) -> None:
    lines = f"{QUESTION}\n/help\n\n/clear\n{QUESTION}\n/exit\nnever read\n"
    done = twin("chat", "--temperature", "0", *SMALL, text=lines)
    assert [line for line in done.stdout.splitlines() if line == PARIS] == [PARIS, PARIS]
    assert "never" not in done.stdout


def test_ctrl_c_stops_an_answer_and_the_chat_goes_on(model_path: Path) -> None:
    command = [*COMMAND, "chat", "--temperature", "0", *SMALL, "--max-tokens", "5000"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("Write a very long story about the sea, with many chapters.\n")
        process.stdin.flush()
        process.stdout.read(20)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(f"/clear\n{QUESTION}\n", timeout=PATIENCE)
    assert process.returncode == 0
    assert rest.endswith(f"{PARIS}\n")


def test_info(model_path: Path) -> None:
    shown = twin("info").stdout
    for fact in ("30 of 576", "134.5 million", "Q4_1", "instruction set", "8192 tokens", "1024 MiB"):
        assert fact in shown
    assert re.search(r"bf16\s+23040 bytes a token", shown)


def test_terminal_looks(model_path: Path) -> None:
    """In a terminal the chat has a prompt, and tells how fast it was."""
    process, shown = in_terminal([*COMMAND, "chat", "--temperature", "0", *SMALL], [f"{QUESTION}\n", "\x04"])
    assert process == 0
    assert "› " in shown
    assert PARIS in shown
    assert re.search(r"\d+ tokens · first after \d+ ms · then \d+ a second", shown)


def in_terminal(command: list[str], inputs: list[str]) -> tuple[int, str]:
    """Run a command in a pseudo-terminal; each input is typed when the prompt appears."""
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(command[0], command, {**os.environ, "TERM": "xterm"})
    shown = b""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            shown += os.read(terminal, 1 << 16)
        except OSError:
            break
        if inputs and shown.endswith("› ".encode()):
            os.write(terminal, inputs.pop(0).encode())
    else:
        os.kill(pid, signal.SIGKILL)
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode(errors="replace")
