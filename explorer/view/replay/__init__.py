"""Rules of a recording's story, applied once for every view: steps, nodes at a position, boxes drawn open."""
