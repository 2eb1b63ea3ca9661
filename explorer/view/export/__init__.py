"""A recording as text, page, DOT, or report of costs."""
