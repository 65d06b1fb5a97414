"""`snnkit site`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option("--out", default="build/site", show_default=True, metavar="DIR", help="Pages come to DIR/html.")
@click.option("--no-run", is_flag=True, help="Notebooks without outputs, in place of executed ones.")
def site(out: str, no_run: bool) -> None:
    """Build the site: README, notebooks with their outputs, workshop pages, the reference of the library, a search.

    Executed notebooks that `snnkit run` left beside DIR are used where they are of the same text; the others are run.
    Exit code 1 if a notebook fails, Sphinx warns, or a link within the site leads nowhere. Links to other places are
    listed in DIR/external_links.txt.
    """
    from snnkit.site.build import build
    from snnkit.tools.project import ProjectError, find

    try:
        first = build(find(), Path(out).resolve(), run=not no_run, told=click.echo)
    except ProjectError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"site: {first}")
