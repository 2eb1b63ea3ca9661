"""Exports of a recording: text, page, DOT and cost reports."""
