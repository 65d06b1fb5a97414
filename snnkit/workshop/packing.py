"""The commands that make what is handed out: solutions, slides, the bundle, and the proof that a bundle is whole."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("notebooks", nargs=-1, metavar="[NB]...")
@click.option("--out", default="workshop/solutions", show_default=True, metavar="DIR", help="For the executed copies.")
def solutions(notebooks: tuple[str, ...], out: str) -> None:
    """Execute notebooks with their solutions, each with its checks and hints below it: the instructor's copies.

    NB is a number (04), a name or a path; all where none is given. Exit code 1 if one fails, or a solution does not
    pass its own checks. Takes some minutes for all.
    """
    from snnkit.tools.project import ProjectError, find

    from .problem import WorkshopError
    from .solutions import build

    try:
        project = find()
        names = project.select(notebooks)
        build(project, names, Path(out), click.echo)
    except (ProjectError, WorkshopError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"executed: {len(names)}, in {Path(out) / 'notebooks'} and {Path(out) / 'html'}")


@click.command()
@click.argument("notebooks", nargs=-1, metavar="[NB]...")
@click.option("--copies", default="build/notebooks", show_default=True, metavar="DIR", help="Executed by `snnkit run`.")
@click.option("--out", default="build/slides", show_default=True, metavar="DIR", help="A page for each notebook.")
def slides(notebooks: tuple[str, ...], copies: str, out: str) -> None:
    """Make slides of the cells that are tagged `slide`, with the pictures of executed copies.

    Each page stands alone, needs no network, and prints a slide a page. Arrows turn it.
    """
    from snnkit import files
    from snnkit.tools.project import ProjectError, find

    from . import slides as making
    from .problem import WorkshopError

    try:
        pages = {
            name: making.html(making.read(Path(copies) / f"{name}.ipynb"), name) for name in find().select(notebooks)
        }
        for name, page in pages.items():
            files.write_text(Path(out) / f"{name}.html", page)
    except (ProjectError, WorkshopError, OSError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{len(pages)} {'page' if len(pages) == 1 else 'pages'} in {out}")


@click.command()
@click.option("--out", default="build/workshop", show_default=True, metavar="DIR", help="Where the zips come to.")
@click.option("--data", multiple=True, metavar="NAME", help="Pack mnist or fashion, too; repeatable.")
@click.option("--wheels", is_flag=True, help="Pack everything that has to be installed, for machines like this one.")
@click.option(
    "--solutions", "solved", metavar="DIR", help="Of `snnkit workshop solutions`: packed in a zip of their own."
)
def bundle(out: str, data: tuple[str, ...], wheels: bool, solved: str | None) -> None:
    """Pack one zip for a room without a network: notebooks, the wheel of snnkit, pages, checksums.

    Learners unpack it and type `python start.py`.
    """
    from snnkit.tools.project import ProjectError, find

    from . import bundle as packing
    from .problem import WorkshopError

    try:
        project = find()
        made = [packing.build(project, Path(out), data=data, wheels=wheels)]
        if solved is not None:
            made.append(packing.build_solutions(project, Path(solved), Path(out)))
    except (ProjectError, WorkshopError, OSError) as error:
        raise click.ClickException(str(error)) from None
    for one in made:
        click.echo(f"{one}  {one.stat().st_size / 1e6:.1f} MB")


@click.command()
@click.argument("place", metavar="ZIP|DIR", type=click.Path(exists=True, path_type=Path))
@click.option("--run", "names", multiple=True, metavar="NB", help="Execute this notebook of an unpacked bundle, too.")
@click.option("--out", default="build", show_default=True, metavar="DIR", help="For executed copies.")
def verify(place: Path, names: tuple[str, ...], out: str) -> None:
    """Prove that a bundle, packed or unpacked, is as it was made; with --run, that its notebooks run here, too.

    Exit code 1 if a file is missing or other than it was, or a notebook fails.
    """
    from snnkit.tools.project import ProjectError

    from . import bundle as packing
    from . import sealed
    from .problem import WorkshopError

    try:
        found = sealed.verify(place)
        click.echo(f"{found.files} files are as they were packed; {len(found.more)} more are there")
        if names:
            if not place.is_dir():
                raise click.UsageError("--run needs a bundle that is unpacked")
            packing.run(place.resolve(), names, Path(out), click.echo)
    except (ProjectError, WorkshopError) as error:
        raise click.ClickException(str(error)) from None


COMMANDS = (solutions, slides, bundle, verify)
