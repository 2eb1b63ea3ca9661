"""Bodies of functions over many members at once, and mapped calls in parts for workers."""
