"""``%%jaxtrain``, ``%jaxtrain`` and ``%%here``: parse, delegate, show.

The defaults that ``%jaxtrain use`` sets live as long as the kernel.
"""

from __future__ import annotations

import re
from typing import Any

from jupyter_jax_trainer.allcells import BARE, AllCells
from jupyter_jax_trainer.options.table import Given

_MATCHER = "jaxtrain"
_defaults = Given()
_all_cells: AllCells | None = None


def register(shell: Any) -> None:
    """Put the magics and their completion into a shell."""
    from IPython.core.completer import context_matcher

    global _all_cells
    unregister(shell)
    vars(jaxtrain)["getdoc"] = _help_text  # which IPython asks for `%jaxtrain?`
    shell.register_magic_function(jaxtrain, "line_cell", "jaxtrain")
    shell.register_magic_function(_bare, "cell", BARE)
    shell.register_magic_function(here, "cell", "here")
    if _all_cells is None or _all_cells.shell is not shell:
        _all_cells = AllCells(shell)
    _all_cells.install()
    shell.Completer.custom_matchers.append(context_matcher(identifier=_MATCHER)(_complete))


def unregister(shell: Any) -> None:
    """Take the magics out of a shell."""
    for kind in ("line", "cell"):
        for name in ("jaxtrain", "here", BARE):
            shell.magics_manager.magics[kind].pop(name, None)
    if _all_cells is not None:
        _all_cells.remove()  # what it is to do holds for the next time, as the defaults do
    matchers = shell.Completer.custom_matchers
    matchers[:] = [m for m in matchers if getattr(m, "matcher_identifier", None) != _MATCHER]


def jaxtrain(line: str, cell: str | None = None) -> Any:
    """Run a cell as a distributed JAX job, or a command about jobs."""
    from IPython.core.getipython import get_ipython

    from jupyter_jax_trainer.jobdir.store import about_the_store

    shell = get_ipython()
    with about_the_store():
        if cell is None:
            return _command(line, shell)
        _run(line, cell, shell)


def _bare(line: str, cell: str) -> None:
    """Run a cell without a magic in the session of ``%jaxtrain use --all-cells``."""
    from IPython.core.getipython import get_ipython

    from jupyter_jax_trainer.jobdir.store import about_the_store

    with about_the_store():
        _run(line, cell, get_ipython(), bare=True)


def _run(line: str, cell: str, shell: Any, *, bare: bool = False) -> None:
    """Call `run_cell` with the rewriting of ``--all-cells`` suspended."""
    assert _all_cells is not None, "the magics are registered"
    with _all_cells.submitting():
        run_cell(line, cell, shell, bare=bare)


def here(line: str, cell: str) -> None:
    """Run a cell in this kernel, also after ``%jaxtrain use --all-cells``."""
    from IPython.core.getipython import get_ipython

    # Of a cell that begins with it, the line was taken away before (see allcells.py).
    get_ipython().run_cell(cell).raise_error()


def run_cell(line: str, cell: str, shell: Any, *, bare: bool = False) -> None:
    """Submit a cell, follow its job, and put what it brings back into the notebook.

    Parameters
    ----------
    line
        The words after ``%%jaxtrain``.
    cell
        The lines below it.
    shell
        The IPython shell.
    bare
        It is a whole cell of the notebook, of which no line is a magic.

    Raises
    ------
    JaxTrainError
        Before anything was started, or `JobFailed` when the job failed.
    """
    from jupyter_jax_trainer import api
    from jupyter_jax_trainer.capture import capture_cell
    from jupyter_jax_trainer.options.spec import parse_cell_line
    from jupyter_jax_trainer.options.table import HelpRequested
    from jupyter_jax_trainer.text import plain
    from jupyter_jax_trainer.views import follow as display
    from jupyter_jax_trainer.views.interrupts import Interrupts

    try:
        spec = api.in_session(parse_cell_line(line, _defaults))
    except HelpRequested:
        print(_help_text())
        return
    backend, plan = api.prepare(spec)
    capture = capture_cell(
        cell,
        shell.user_ns,
        use=spec.use,
        out=spec.out,
        shell=shell,
        bare=bare,
        on_size=lambda total: backend.check_size(total, spec),
        ledger=api.ledger(backend),
    )
    api.check(spec, backend, plan, capture)
    if spec.dry_run:
        api.say_notes(capture, allow_large=spec.allow_large)
        print(plain(api.dry_run(spec, backend, plan, capture)))
        return
    view = display.open_view()
    api.say_notes(capture, allow_large=spec.allow_large)
    display.announce(view, spec, plan, capture)
    with Interrupts() as interrupts:
        try:
            # From the start of the job on, an interrupt must not make this cell forget it.
            job = api.submit(
                spec,
                backend,
                plan,
                capture,
                cell=cell,
                origin=api.notebook_origin(),
                before_start=interrupts.hold,
            )
        except BaseException:
            display.not_started(view, spec)
            raise
        if spec.detach:
            display.announce_detached(job)
            if interrupts.times:
                raise display.detached(job)
            return
        display.follow(job, interrupts, view, stops="cell_of" in job.manifest)
        api.take(job, shell.user_ns)
    if interrupts.times:  # Run All should stop here all the same
        raise display.ended_meanwhile(job)


def _help_text() -> str:
    """Return the help; it needs all commands, which loading the extension does not import."""
    from jupyter_jax_trainer.commands.helptext import help_text

    return help_text()


def _command(line: str, shell: Any) -> None:
    from jupyter_jax_trainer.commands import Context, run_command
    from jupyter_jax_trainer.options.table import split
    from jupyter_jax_trainer.views.frontend import in_notebook

    context = Context(
        in_notebook=in_notebook(),
        defaults=_defaults,
        all_cells=_all_cells,
        namespace=shell.user_ns,
    )
    run_command(split(line), context)


def _complete(context: Any) -> dict[str, Any]:
    """Complete a line of the magics; nothing else is offered there, Python's names for instance."""
    from IPython.core.completer import SimpleCompletion
    from IPython.core.getipython import get_ipython

    from jupyter_jax_trainer.commands.completion import complete, fragment

    line = context.text_until_cursor
    if not re.match(r"\s*%{1,2}jaxtrain\s", line):
        return {"completions": []}
    found = complete(line, len(line), get_ipython().user_ns)
    return {
        "completions": [SimpleCompletion(text=text) for text in found],
        "matched_fragment": fragment(line, len(line)),
        "suppress": True,
    }
