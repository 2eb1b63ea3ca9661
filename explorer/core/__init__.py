"""The engine's foundation: expressions, types, tracing, policies, registries, errors, files and memory limits."""
