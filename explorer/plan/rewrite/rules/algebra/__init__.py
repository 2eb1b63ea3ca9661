"""The algebra that several rules share: factors, quotients, and powers with formal exponents."""
