"""What a benchmark says when something that it needs is not here."""


class Missing(Exception):  # noqa: N818
    """The message says what is missing, and how to get it."""
