"""The pass that batches: equal calls and operations become one over a leading axis."""
