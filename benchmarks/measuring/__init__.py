"""What benchmarks share: servers as processes, a quiet machine, memory, and where figures are kept."""
