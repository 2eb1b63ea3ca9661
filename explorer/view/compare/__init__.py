"""Two recordings side by side: widget, page, text."""
