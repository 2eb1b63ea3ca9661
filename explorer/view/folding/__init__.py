"""Large graphs made readable: repeated and parallel parts become boxes."""
