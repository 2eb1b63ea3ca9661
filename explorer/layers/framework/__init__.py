"""The layer itself: ports, parameters, policies, topology, and the way back."""
