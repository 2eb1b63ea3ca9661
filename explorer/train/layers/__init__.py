"""Layers for modules: linear, recurrent and normalization layers, embeddings and dropout."""
