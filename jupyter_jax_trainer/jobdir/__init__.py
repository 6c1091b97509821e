"""The job directory: the files of a job, who writes them, and what is read from them."""
