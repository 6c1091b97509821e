"""Settings of the documentation site, which `make docs` builds with Sphinx."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from pygments.lexer import bygroups, inherit
from pygments.lexers.python import PythonLexer
from pygments.token import Keyword, Operator, String
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

DOCS = Path(__file__).parent

project = "jupyter_jax_trainer"
author = "The jupyter_jax_trainer authors"
copyright = author
with (DOCS.parent / "pyproject.toml").open("rb") as _file:
    release = tomllib.load(_file)["project"]["version"]
version = release

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["images/**", "examples/**"]

# Broken links, missing anchors and unknown names of the public API are warnings, and `make docs`
# turns warnings into errors. Names of other projects are not looked up: builds need no network.
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!jupyter_jax_trainer\.).*")]
myst_heading_anchors = 4
nb_execution_mode = "off"

autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
napoleon_google_docstring = False
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"{project} {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_copy_source = False


class CellLexer(PythonLexer):
    """Python as cells have it, with magics."""

    name = "Python in a notebook cell"
    aliases: ClassVar[list[str]] = ["cell"]
    tokens: ClassVar[dict[str, Any]] = {
        "root": [(r"^(%%?)(\w+)(.*\n)", bygroups(Operator, Keyword, String)), inherit]
    }


class DarkPictures(SphinxTransform):
    """Show the dark version of a picture in dark mode, where there is one."""

    default_priority = 200

    def apply(self, **_: Any) -> None:
        """Add the dark pictures of a page."""
        page = Path(self.env.doc2path(self.env.docname))
        for light in list(self.document.findall(nodes.image)):
            uri = light["uri"].replace("-light-", "-dark-")
            if uri == light["uri"] or not (page.parent / uri).exists():
                continue
            dark = light.deepcopy()
            dark["uri"] = uri
            light["classes"].append("only-light")
            dark["classes"].append("only-dark")
            light.parent.insert(light.parent.index(light) + 1, dark)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register what is special about this site."""
    app.add_transform(DarkPictures)
    for name in ("python", "ipython3"):
        app.add_lexer(name, CellLexer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
