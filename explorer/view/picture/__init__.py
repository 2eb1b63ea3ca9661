"""Static picture of a recording at one step, as SVG."""
