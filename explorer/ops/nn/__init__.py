"""Operations of neural networks: activations, losses, normalization, attention, convolution, pooling, resizing."""
