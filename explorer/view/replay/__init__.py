"""Rules of a recording's story, applied once for every view: steps, what stands at a position, boxes drawn open."""
