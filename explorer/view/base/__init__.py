"""The tools of all views: markup, text metrics, colours, steps."""
