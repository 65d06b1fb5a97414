"""As much of Colab's own package as a notebook can meet without Colab's front end. Colab's kernel imports it."""

from . import output

__all__ = ["output"]
