"""A job for other people: a page that shows it, and a folder that runs it again."""
