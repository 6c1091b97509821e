"""All time-outs; docs/reference/settings.md says what each bounds."""

from __future__ import annotations

import os
from collections.abc import Mapping

from jupyter_jax_trainer.worker import timeouts
from jupyter_jax_trainer.worker.timeouts import Timeout

# The processes of a job
RENDEZVOUS = timeouts.RENDEZVOUS
RENDEZVOUS_OF_PODS = timeouts.RENDEZVOUS_OF_PODS
HEARTBEAT = timeouts.HEARTBEAT
PEER = timeouts.PEER
FINISH = timeouts.FINISH
LEAVE = timeouts.LEAVE
CAUSE = timeouts.CAUSE
KILL = timeouts.KILL
STORE = timeouts.STORE
RESULT_HOLD = timeouts.RESULT_HOLD
TRANSFER = timeouts.TRANSFER
BUNDLE = timeouts.BUNDLE
RECONNECT = timeouts.RECONNECT
STATUS = timeouts.STATUS
PROOF = timeouts.PROOF
LAST_WORDS = timeouts.LAST_WORDS
WHERE = timeouts.WHERE
PROFILE = timeouts.PROFILE
SAMPLE = timeouts.SAMPLE
PACE = timeouts.PACE
PIPE = timeouts.PIPE
UNREACHED = timeouts.UNREACHED
NOTICE = timeouts.NOTICE

# This machine
GRACE = Timeout("JAXTRAIN_GRACE_TIMEOUT", 1.0)
EXIT = Timeout("JAXTRAIN_EXIT_TIMEOUT", 30.0)
SUPERVISOR = Timeout("JAXTRAIN_SUPERVISOR_TIMEOUT", 180.0)
WARM = Timeout("JAXTRAIN_WARM_TIMEOUT", 30.0)
WARM_IDLE = Timeout("JAXTRAIN_WARM_IDLE", 600.0)
CANCEL = Timeout("JAXTRAIN_CANCEL_TIMEOUT", 10.0)
GPU = Timeout("JAXTRAIN_GPU_TIMEOUT", 5.0)
PIP = Timeout("JAXTRAIN_PIP_TIMEOUT", 120.0)
ASK = Timeout("JAXTRAIN_ASK_TIMEOUT", 10.0)
SESSION = Timeout("JAXTRAIN_SESSION_TIMEOUT", 60.0)
INTERRUPT = Timeout("JAXTRAIN_INTERRUPT_TIMEOUT", 5.0)
AGREE = Timeout("JAXTRAIN_AGREE_TIMEOUT", 4.0)
MEET = Timeout("JAXTRAIN_MEET_TIMEOUT", 30.0)
TAKEN = Timeout("JAXTRAIN_PROFILE_TAKEN_TIMEOUT", 120.0)
SUMMARY = Timeout("JAXTRAIN_SUMMARY_TIMEOUT", 60.0)
COLLECTIVE = Timeout("JAXTRAIN_COLLECTIVE_TIMEOUT", 60.0)
ON_END = Timeout("JAXTRAIN_ON_END_TIMEOUT", 30.0)
STUCK = Timeout("JAXTRAIN_STUCK_TIMEOUT", 120.0)
PROGRAMS = Timeout("JAXTRAIN_PROGRAMS_TIMEOUT", 20.0)

# A cluster
CONNECT = Timeout("JAXTRAIN_CONNECT_TIMEOUT", 5.0)
SIGN_IN = Timeout("JAXTRAIN_SIGN_IN_TIMEOUT", 30.0)
API = Timeout("JAXTRAIN_API_TIMEOUT", 5.0)
REQUEST = Timeout("JAXTRAIN_REQUEST_TIMEOUT", 30.0)
SILENCE = Timeout("JAXTRAIN_SILENCE_TIMEOUT", 2.0)
DOCTOR = Timeout("JAXTRAIN_DOCTOR_TIMEOUT", 10.0)
PLACES = Timeout("JAXTRAIN_PLACES_TIMEOUT", 25.0)
SUBMIT = Timeout("JAXTRAIN_SUBMIT_TIMEOUT", 60.0)
RUNTIME = Timeout("JAXTRAIN_RUNTIME_TIMEOUT", 10.0)
UNDO = Timeout("JAXTRAIN_UNDO_TIMEOUT", 5.0)
SUBMITTER = Timeout("JAXTRAIN_SUBMITTER_TIMEOUT", 15.0)
WATCH = Timeout("JAXTRAIN_WATCH_TIMEOUT", 90.0)
LOG_SILENCE = Timeout("JAXTRAIN_LOG_SILENCE_TIMEOUT", 60.0)
LOG = Timeout("JAXTRAIN_LOG_TIMEOUT", 120.0)
LOG_END = Timeout("JAXTRAIN_LOG_END_TIMEOUT", 5.0)
DRAIN = Timeout("JAXTRAIN_DRAIN_TIMEOUT", 15.0)
FORWARD = Timeout("JAXTRAIN_FORWARD_TIMEOUT", 30.0)
CLUSTER_CANCEL = Timeout("JAXTRAIN_CLUSTER_CANCEL_TIMEOUT", 45.0)
CHANNEL_IDLE = Timeout("JAXTRAIN_CHANNEL_IDLE", 60.0)
KEEP_ALIVE = Timeout("JAXTRAIN_KEEP_ALIVE_INTERVAL", 20.0)
ANSWER = Timeout("JAXTRAIN_ANSWER_TIMEOUT", 5.0)
FOLLOWER_IDLE = Timeout("JAXTRAIN_FOLLOWER_IDLE", 30.0)
CONTROLLER = Timeout("JAXTRAIN_CONTROLLER_TIMEOUT", 10.0)
SECRET = Timeout("JAXTRAIN_SECRET_TIMEOUT", 60.0)
SCALE_UP = Timeout("JAXTRAIN_SCALE_UP_TIMEOUT", 900.0)

# JupyterLab
PAGE = Timeout("JAXTRAIN_PAGE_TIMEOUT", 40.0)
KERNEL = Timeout("JAXTRAIN_KERNEL_TIMEOUT", 5.0)
METRICS = Timeout("JAXTRAIN_METRICS_TIMEOUT", 0.1)
XPROF = Timeout("JAXTRAIN_XPROF_TIMEOUT", 60.0)
XPROF_IDLE = Timeout("JAXTRAIN_XPROF_IDLE", 1800.0)

OF_WORKERS = (
    RENDEZVOUS,
    RENDEZVOUS_OF_PODS,
    HEARTBEAT,
    PEER,
    FINISH,
    LEAVE,
    CAUSE,
    KILL,
    STORE,
    RESULT_HOLD,
    TRANSFER,
    BUNDLE,
    RECONNECT,
    STATUS,
    PROOF,
    LAST_WORDS,
    WHERE,
    PROFILE,
    SAMPLE,
    PACE,
    PIPE,
    UNREACHED,
    NOTICE,
)
ALL = (
    *OF_WORKERS,
    GRACE,
    EXIT,
    SUPERVISOR,
    WARM,
    WARM_IDLE,
    CANCEL,
    GPU,
    PIP,
    ASK,
    SESSION,
    INTERRUPT,
    AGREE,
    MEET,
    TAKEN,
    SUMMARY,
    COLLECTIVE,
    ON_END,
    STUCK,
    PROGRAMS,
    CONNECT,
    SIGN_IN,
    API,
    REQUEST,
    SILENCE,
    DOCTOR,
    PLACES,
    SUBMIT,
    RUNTIME,
    UNDO,
    SUBMITTER,
    WATCH,
    LOG_SILENCE,
    LOG,
    LOG_END,
    DRAIN,
    FORWARD,
    CLUSTER_CANCEL,
    CHANNEL_IDLE,
    KEEP_ALIVE,
    ANSWER,
    FOLLOWER_IDLE,
    CONTROLLER,
    SECRET,
    SCALE_UP,
    PAGE,
    KERNEL,
    METRICS,
    XPROF,
    XPROF_IDLE,
)


def check(env: Mapping[str, str]) -> None:
    """Look at all settings before anything starts.

    Parameters
    ----------
    env
        The environment that a job is given.

    Raises
    ------
    UsageError
        One is no number of seconds.
    """
    for timeout in ALL:
        timeout.given(os.environ)
    for timeout in OF_WORKERS:
        timeout.given(env)
