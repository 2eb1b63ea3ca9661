"""Operations of neural networks: activations, losses, normalization, attention, convolution, pooling and resizing."""
