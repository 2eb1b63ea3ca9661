"""From a plan and its run to a recording."""
