"""Tables of operator types: their schemas, and the context in which they are built."""
