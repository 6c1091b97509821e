"""Why a job waits or has failed."""
