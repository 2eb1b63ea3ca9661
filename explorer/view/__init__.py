"""Views of recordings: widgets, pictures, pages and text. They import explorer.record only."""
