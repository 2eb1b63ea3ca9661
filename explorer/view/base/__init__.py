"""Basics of all views: markup, text metrics, colours and steps."""
