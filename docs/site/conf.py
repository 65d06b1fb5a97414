"""Sphinx's settings for the site that `make site` builds, out of a folder which `snnkit site` fills."""

from typing import Any

import snnkit
from snnkit.site.docstrings import process

project = "snnkit"
author = "The snnkit authors"
copyright = "the snnkit authors, MIT license"
release = version = snnkit.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]

# Notebooks are executed before, by the kit's own runner, which knows a failure when it sees one.
nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

# Docstrings: `x` is code, and what a class inherits is told where it comes from.
default_role = "code"
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
python_use_unqualified_type_names = True
# Attributes are called as is natural, and some as others are (`bytes`): which one an annotation means is plain there.
suppress_warnings = ["ref.python"]

html_theme = "sphinx_book_theme"
html_title = "snnkit"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
# The address of the project comes with the command, from [tool.snnkit].
html_theme_options = {
    "navbar_persistent": [],  # the search is in the menu
    "use_repository_button": True,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "home_page_in_toc": True,
    "show_toc_level": 2,
}


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", process)
