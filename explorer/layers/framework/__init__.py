"""Base classes of layers: ports, parameters, policies, topology and the backward pass."""
