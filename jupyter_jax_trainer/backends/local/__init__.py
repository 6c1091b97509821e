"""The local backend: the ranks of a job are processes of this machine."""
