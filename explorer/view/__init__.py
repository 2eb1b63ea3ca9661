"""Views of recordings: widgets, pictures, pages and text; they import only explorer.record."""
