"""Parts shared by commands: array files, image inputs, output and the terminal."""
