"""Parts that several commands use: options, array files, pictures, outputs and the terminal."""
