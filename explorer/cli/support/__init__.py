"""What several commands share: array files, image inputs, output, the terminal."""
