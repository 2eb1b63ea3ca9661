"""The foundation of the engine: errors, argument checks, policies, registry, memory budget and progress bars."""
