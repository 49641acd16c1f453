"""Every command and its options. What they need is imported only when they run, so that help is quick."""

from __future__ import annotations

from typing import Annotated

import typer

from twinfer import __version__
from twinfer.cli import bench, options, serve_options

app = typer.Typer(
    name="twinfer",
    help="Serve large language models, with prefill and decode as two engines.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"twinfer {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Serve large language models, with prefill and decode as two engines."""


@app.command()
def serve(
    model: options.Model = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 for a free one.")] = 8000,
    prefill_engines: options.PrefillEngines = 1,
    decode_engines: options.DecodeEngines = 1,
    colocate: options.Colocate = False,
    placement: options.Placement = "auto",
    prefill_chunk: options.PrefillChunk = 512,
    max_batch_size: options.MaxBatchSize = 128,
    prefill_precision: options.PrefillPrecision = "auto",
    decode_precision: options.DecodePrecision = "auto",
    kv_dtype: options.KvDtype = "auto",
    kv_pool_size: options.KvPoolSize = None,
    gpu_memory_utilization: options.GpuMemoryUtilization = 0.9,
    max_model_len: options.MaxModelLen = None,
    prefix_cache: options.PrefixCache = True,
    slo_ttft: options.SloTtft = None,
    slo_tpot: options.SloTpot = None,
    tensor_parallel_size: options.TensorParallelSize = 1,
    seed: options.Seed = None,
    check: options.Check = False,
    api_key: serve_options.ApiKey = None,
    api_key_file: serve_options.ApiKeyFile = None,
    admin_token: serve_options.AdminToken = None,
    allowed_host: serve_options.AllowedHost = None,
    cors_origin: serve_options.CorsOrigin = None,
    ssl_certfile: serve_options.SslCertfile = None,
    ssl_keyfile: serve_options.SslKeyfile = None,
    max_queue: serve_options.MaxQueue = 512,
    max_streams: serve_options.MaxStreams = 512,
    max_connections: serve_options.MaxConnections = 4096,
    max_body_size: serve_options.MaxBodySize = "4MiB",
    max_header_size: serve_options.MaxHeaderSize = "32KiB",
    max_answer_tokens: serve_options.MaxAnswerTokens = None,
    max_choices: serve_options.MaxChoices = 128,
    max_stop_strings: serve_options.MaxStopStrings = 16,
    request_timeout: serve_options.RequestTimeout = 600,
    read_timeout: serve_options.ReadTimeout = 30,
    send_timeout: serve_options.SendTimeout = 30,
    shutdown_timeout: serve_options.ShutdownTimeout = 30,
) -> None:
    """Serve a model over HTTP, with OpenAI's API."""
    arguments = dict(locals())
    config = options.config_from(arguments)
    limits = serve_options.limits_from(arguments)
    access = serve_options.access_from(arguments)
    from twinfer.api.tls import certificate
    from twinfer.cli.serve import serve

    serve(config, host, port, limits, access, certificate(ssl_certfile, ssl_keyfile))


@app.command()
def generate(
    prompt: Annotated[str, typer.Argument(help="The text to continue; - reads it from stdin.")],
    model: options.Model = None,
    chat: Annotated[
        bool, typer.Option("--chat", help="Answer the prompt as a chat message, rather than continue it.")
    ] = False,
    max_tokens: options.MaxTokens = 128,
    temperature: options.Temperature = 1.0,
    top_p: options.TopP = 1.0,
    top_k: options.TopK = 0,
    min_p: options.MinP = 0.0,
    seed: options.Seed = None,
    stop: Annotated[
        list[str] | None,
        typer.Option(help="A text to stop at; may be repeated.", rich_help_panel=options.SAMPLING),
    ] = None,
    ignore_eos: Annotated[
        bool,
        typer.Option("--ignore-eos", help="Go on after the end token.", rich_help_panel=options.SAMPLING),
    ] = False,
    prefill_engines: options.PrefillEngines = 1,
    decode_engines: options.DecodeEngines = 1,
    colocate: options.Colocate = False,
    prefill_precision: options.PrefillPrecision = "auto",
    decode_precision: options.DecodePrecision = "auto",
    kv_dtype: options.KvDtype = "auto",
    kv_pool_size: options.KvPoolSize = None,
    max_model_len: options.MaxModelLen = None,
) -> None:
    """Continue a text, on stdout."""
    config = options.config_from(locals())
    params = options.params_from(locals())
    from twinfer.cli.generate import generate

    generate(config, prompt, chat=chat, params=params)


@app.command()
def chat(
    model: options.Model = None,
    system: Annotated[str | None, typer.Option(help="A system message to begin with.")] = None,
    max_tokens: options.MaxTokens = None,
    temperature: options.Temperature = 0.7,
    top_p: options.TopP = 0.95,
    top_k: options.TopK = 0,
    min_p: options.MinP = 0.0,
    seed: options.Seed = None,
    prefill_engines: options.PrefillEngines = 1,
    decode_engines: options.DecodeEngines = 1,
    colocate: options.Colocate = False,
    prefill_precision: options.PrefillPrecision = "auto",
    decode_precision: options.DecodePrecision = "auto",
    kv_dtype: options.KvDtype = "auto",
    kv_pool_size: options.KvPoolSize = None,
    max_model_len: options.MaxModelLen = None,
) -> None:
    """Chat in the terminal. Ctrl-C stops an answer, Ctrl-D leaves."""
    config = options.config_from(locals())
    params = options.params_from(locals())
    from twinfer.cli.chat import chat

    chat(config, system, params)


@app.command()
def info(model: options.Model = None) -> None:
    """Show the machine, the instruction set picked, and what the model needs."""
    from twinfer.cli.info import info

    info(model)


app.add_typer(bench.app, name="bench")
