"""What is measured of Twinfer, beside its rivals where there are any: `python -m benchmarks.NAME`.

goodput, engines, overload, handover, memory, precision and step_overhead are programs, as are pack_traces and
rivals.install; `--help` says what they do. Their figures are in results/, a folder for each machine. What
they share is in measuring/, and the rivals are in rivals/, whose `run_` and `serve_` scripts run in
environments of their own.
"""
