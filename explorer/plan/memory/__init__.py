"""The passes that choose memory formats and place buffers in one arena."""
