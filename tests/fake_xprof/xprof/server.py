from __future__ import annotations

import gzip
import json
import os
import time
from pathlib import Path
from urllib.parse import parse_qs

ROOT = "/data/plugin/profile"

# What the page gets by each way to Jupyter that there is; `data` is its own, and works.
PAGE = """<!doctype html>
<html><head><title>XProf</title></head><body><pre id="found"></pre><script>
const [base] = location.pathname.split('/jaxtrain/');
const ways = {
  data: async () => (await fetch('data?tag=overview')).text(),
  api: async () => (await fetch(base + '/api/contents')).status,
  cookies: async () => (await fetch(base + '/api/contents', { credentials: 'include' })).status,
  blind: async () => (await fetch(base + '/api/contents', { mode: 'no-cors' })).type,
  post: async () => (await fetch(base + '/api/kernels', { method: 'POST', mode: 'no-cors' })).type,
  image: () => new Promise((loaded, failed) => {
    const image = new Image();
    image.onload = () => loaded('loaded');
    image.onerror = failed;
    image.src = base + '/static/favicons/favicon.ico';
  }),
  socket: () => new Promise((opened, failed) => {
    const socket = new WebSocket(`ws://${location.host}${base}/jaxtrain/api/live`);
    socket.onopen = () => opened('opened');
    socket.onerror = failed;
  }),
  above: async () => window.top.document.title,
  address: async () => window.top.location.href,
  navigate: async () => {
    if (window.top !== window) window.top.location = 'about:blank';
    return 'gone';
  },
  origin: async () => { if (window.origin !== 'null') return window.origin; throw Error(); },
  worker: async () => (await navigator.serviceWorker.register('worker.js')).scope,
  database: () => new Promise((opened, failed) => {
    const request = indexedDB.open('one');
    request.onsuccess = () => opened('opened');
    request.onerror = failed;
  })
};
const shown = async () => {
  const found = { cookie: document.cookie, stored: localStorage.getItem('secret') };
  localStorage.setItem('own', 1);
  found.own = localStorage.getItem('own');
  for (const [name, way] of Object.entries(ways)) {
    try { found[name] = await way(); } catch (error) { found[name] = 'refused'; }
  }
  document.querySelector('#found').textContent = JSON.stringify(found);
};
shown();
</script></body></html>"""


class DataProvider:
    def __init__(self, logdir: str) -> None:
        self.logdir = logdir


class TBContext:
    class Flags:
        def __init__(self, channel: object) -> None:
            self.channel = channel

    def __init__(self, logdir: str, data_provider: DataProvider, flags: Flags) -> None:
        self.logdir = logdir


class ProfilePluginLoader:
    def load(self, context: TBContext) -> TBContext:
        traces = Path(context.logdir, "plugins", "profile").glob("*/*.xplane.pb")
        trouble = next(traces).read_text().partition("trouble: ")[2]
        if trouble == "exit":
            os._exit(3)
        if trouble == "wait":
            time.sleep(600)
        if trouble:
            raise RuntimeError(trouble)
        assert context.hide_capture_profile_button
        return context


def make_wsgi_app(context: TBContext):
    def application(environ, start):
        path, status, kind = environ["PATH_INFO"].removeprefix(ROOT), "200 OK", "application/json"
        if path == "/":
            body, kind = PAGE.encode(), "text/html"
        elif path == "/self":
            body = json.dumps({"pid": os.getpid(), "env": dict(os.environ), "cwd": os.getcwd()})
        elif path == "/runs":
            runs = Path(context.logdir, "plugins", "profile").glob("*/*.xplane.pb")
            body = json.dumps({f"{one.parent.name}/{one.name}": one.read_text() for one in runs})
        elif path == "/data":
            body = json.dumps(parse_qs(environ["QUERY_STRING"]))
        else:
            status, body = "404 Not Found", "Not Found"
        body = gzip.compress(body if isinstance(body, bytes) else body.encode())
        headers = [
            ("Content-Type", kind),
            ("Content-Encoding", "gzip"),
            ("Content-Security-Policy", "default-src *"),
            ("Set-Cookie", "own=1"),
            ("Access-Control-Allow-Origin", "*"),
        ]
        start(status, headers)
        return [body]

    return application
