"""Names of all operations, by the file that declares them."""
