"""What Jupyter Server loads: settings and routes."""

from __future__ import annotations

import os

from jupyter_server.extension.application import ExtensionApp
from traitlets import Bool, Integer, List, Unicode

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends import idle
from jupyter_jax_trainer.jobdir import endhook
from jupyter_jax_trainer.profiles.xprof import Viewers
from jupyter_jax_trainer.queries.allowed import Allowed
from jupyter_jax_trainer.queries.jobs import Table
from jupyter_jax_trainer.queries.page import Page
from jupyter_jax_trainer.server.live import LiveHandler
from jupyter_jax_trainer.server.metrics import export
from jupyter_jax_trainer.trust import pickles, policy


class JaxTrain(ExtensionApp):
    """The extension."""

    name = "jupyter_jax_trainer"
    extension_url = "/jaxtrain"
    load_other_extensions = True

    allowed_origins = List(
        Unicode(),
        help="Origins (as in https://hub.example.org) from which pages may come besides this "
        "server's own, for proxies that rewrite the Host header.",
    ).tag(config=True)
    allowed_contexts = List(
        Unicode(),
        ["*"],
        help="Contexts of the kubeconfig that pages see and may ask about, as names or shell "
        "patterns.",
    ).tag(config=True)
    allowed_namespaces = List(
        Unicode(),
        ["*"],
        help="Namespaces that pages may ask about, likewise. The cluster decides what the user may "
        "do there.",
    ).tag(config=True)
    allow_foreign_results = Bool(
        True,
        help="Whether users may trust other people's jobs, which loads their results and shows "
        "their HTML. If false, this also holds in the kernels and terminals of this server: they "
        "get JAXTRAIN_ALLOW_FOREIGN_RESULTS=0.",
    ).tag(config=True)
    allow_pickled_results = Bool(
        True,
        help="Whether results that need pickle may be loaded; unpickling can run code. If false, "
        "the kernels and terminals of this server load only plain results: they get "
        "JAXTRAIN_ALLOW_PICKLED_RESULTS=0.",
    ).tag(config=True)
    allow_on_end = Bool(
        True,
        help="Whether users may have a command or a webhook told of the end of jobs. If false, the "
        "kernels and terminals of this server get JAXTRAIN_ALLOW_ON_END=0.",
    ).tag(config=True)
    session_idle = Unicode(
        "",
        help="How long a session of this machine may be idle, where its user does not say: 30m, "
        "or never. The kernels and terminals of this server get it as JAXTRAIN_SESSION_IDLE.",
    ).tag(config=True)
    max_session_idle = Unicode(
        "",
        help="The most that a user may ask for; then never is refused, too. They get it as "
        "JAXTRAIN_SESSION_IDLE_MAX.",
    ).tag(config=True)
    max_pages = Integer(
        200,
        min=1,
        help="How many pages may be connected at once; more are refused until some disconnect.",
    ).tag(config=True)

    def initialize_settings(self) -> None:
        """Give the handlers what they share."""
        origins = [origin.rstrip("/").lower() for origin in self.allowed_origins]
        self.settings["jaxtrain_origins"] = origins
        self.settings["jaxtrain_allowed"] = Allowed(self.allowed_contexts, self.allowed_namespaces)
        if not self.allow_foreign_results:
            os.environ[policy.ALLOW] = "0"  # what this server starts inherits it
        if not self.allow_pickled_results:
            os.environ[pickles.ALLOW] = "0"  # what this server starts inherits it
        if not self.allow_on_end:
            os.environ[endhook.ALLOW] = "0"  # what this server starts inherits it
        for name, value in ((idle.USUAL, self.session_idle), (idle.MOST, self.max_session_idle)):
            if value:
                os.environ[name] = value  # what this server starts inherits it
        assert self.serverapp is not None
        table = self.settings["jaxtrain_table"] = Table(self.serverapp.root_dir)
        self.settings["jaxtrain_viewers"] = Viewers()
        pages: set[Page] = set()
        self.settings["jaxtrain_pages"] = pages
        self.settings["jaxtrain_max_pages"] = self.max_pages
        # What JupyterLab and Notebook put into their pages.
        in_pages = self.settings.setdefault("page_config_data", {})
        in_pages["jaxtrainPageTimeout"] = str(timeouts.PAGE.seconds)
        export(table, pages)

    def initialize_handlers(self) -> None:
        """Add the routes."""
        from jupyter_jax_trainer.server import routes, xprof

        self.handlers.extend([*xprof.ROUTES, *routes.ROUTES])
        self.handlers.append((r"jaxtrain/api/live", LiveHandler))

    async def stop_extension(self) -> None:
        """End what was started here."""
        viewers: Viewers = self.settings["jaxtrain_viewers"]
        viewers.end()
