"""The ``@function`` decorator: a Python body traced once a signature, and the variables that it captures."""
