"""The follower: it writes the directories of the jobs that run in a cluster."""
