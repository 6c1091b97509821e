"""How values travel between a notebook and a job, and back."""
