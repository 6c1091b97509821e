"""Whether all is there that jobs need."""
