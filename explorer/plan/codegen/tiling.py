"""Sizes that the code of products shares: sizes of tiles, as in products.c, and of the parts of a product."""

BLOCK_BYTES = 64
"""size of a block of columns"""
WHOLE_ROWS = 24
"""a multiple of the number of rows of a tile on each machine"""
BAND_BYTES = 1 << 18
"""maximum size of a band, which is on the thread's stack; the second cache holds it"""
PARTS = 4
"""minimum number of parts that threads can share"""
ELEMENT = 16
"""number of products that take as long as an elementwise kernel takes for one element"""
