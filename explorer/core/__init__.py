"""The foundation of the engine: errors, policies, the registry of operations, the memory budget, progress, hooks."""
