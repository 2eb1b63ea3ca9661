"""The intermediate representation: expressions, operations, tensors, functions and their calls, and walks over them."""
