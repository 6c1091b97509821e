"""What pages and widgets ask. Nothing here knows HTTP."""
