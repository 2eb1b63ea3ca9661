"""Spacing of names and numbers next to edges and nodes, in px; the front end gets it from payload/script_bundle.py."""

PORT_CHARACTER, PORT_BESIDES = 5, 12
"""width of a character of a port's name, and the room beside the name"""
LEVEL = 24
"""difference of height of the ends of an edge, up to which it counts as level: names of ports lie along it"""
NUMBER_BESIDES = 4
"""between a number and the place that it stands left of: one digit fits inside the border of a box around it"""
