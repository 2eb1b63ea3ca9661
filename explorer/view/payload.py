"""What the front end gets, once: ``{"recording": …, "layout": …, "options": …}``; stepping needs nothing more.

``recording`` is the plain form of a Recording (explorer/record). ``layout`` places what it holds::

    {"boxes": [Box, …], "slots": [Slot, …]}

A *slot* is a place that one node, or the nodes that replace each other there (a subject and what was produced for
it), share for the whole story; a slot is as large as its largest node, so nothing jumps::

    Slot = {"nodes": [id, …], "at": [[x, y, w, h], …]}      one place for each node, relative to the slot

A *box* is a container: box 0 is the whole graph, every other one can be opened and closed. Each box is laid out
once, alone, with its child boxes closed::

    Box = {"kind": "top" | "scope" | "function" | "layer" | "file" | "batch" | "chain" | "repeat" | "stack",
           "label": str, "count": int,                      the "n" of "×n"
           "parent": int, "open": bool,                     open at the beginning
           "closed": [w, h], "size": [w, h],                drawn as one node; open, with all child boxes closed
           "items": [{"slot": k | "box": k, "at": [x, y, w, h], "rank": r}, …],
           "edges": [[from item, to item, [x0, y0, x1, y1, …]], …]}   cubic Bézier control points

Coordinates are integers in CSS pixels, x to the right, y down, in the frame of the box that holds them. When a child
box opens it grows from its closed place: items of later ranks move down by the growth of the tallest opened item
of each earlier rank, items to its right in the same rank move right; edge points move with their ends.
``options`` holds "theme" ("auto", "light", "dark"), "position" (where to stand at first) and "height" (px).
"""
