"""Layers that modules bring along: linear, recurrent and normalizing ones, embeddings, and dropout."""
