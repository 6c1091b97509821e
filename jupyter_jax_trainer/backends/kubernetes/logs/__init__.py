"""The logs of pods, spooled into the job directory: no line lost, none doubled."""
