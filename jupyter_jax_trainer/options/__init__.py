"""The options of a job: their table, their checks, and what a user asks for with them."""
