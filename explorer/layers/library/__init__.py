"""The layers that come with explorer."""
