"""The foundation of the engine: errors, argument checks, policies, the registry, the memory budget and progress
bars.
"""
