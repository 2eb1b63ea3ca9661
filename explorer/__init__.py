"""Explorer: see what a tensor program is, what a planner does to it, and why."""

__version__ = "0.1.0"
