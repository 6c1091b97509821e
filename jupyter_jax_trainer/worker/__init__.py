"""Code that runs inside a job; it is shipped with the job and needs only Python and JAX."""
