"""Posts to a webhook, whose address may hold a secret: no error repeats it."""

from __future__ import annotations

import urllib.error
import urllib.request
from email.message import Message
from typing import IO

from jupyter_jax_trainer.errors import BackendError
from jupyter_jax_trainer.messages import jobs as say


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """What is posted goes to where the user said, and nowhere else."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Message,
        newurl: str,
    ) -> None:
        return None


def post(url: str, data: bytes, seconds: float) -> None:
    """Post JSON, and have it accepted.

    Parameters
    ----------
    seconds
        How long to wait for each step; the caller bounds the whole.

    Raises
    ------
    BackendError
        It was not accepted.
    TimeoutError
        Nothing was heard for so long.
    """
    headers = {"Content-Type": "application/json", "User-Agent": "jupyter-jax-trainer"}
    request = urllib.request.Request(url, data, headers)
    try:
        urllib.request.build_opener(_NoRedirects).open(request, timeout=seconds).close()
    except urllib.error.HTTPError as error:
        error.close()
        raise BackendError(say.ON_END_ANSWER(status=error.code)) from None
    except OSError as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, TimeoutError):
            raise TimeoutError from None
        words = reason.strerror if isinstance(reason, OSError) else None
        kind = type(reason).__name__
        raise BackendError(say.ON_END_NO_CONNECTION(error=words or kind)) from None
