"""Tracing of functions: the ``@function`` decorator and the variables that a body captures."""
