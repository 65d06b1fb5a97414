"""The site: README, executed notebooks, workshop pages and an API reference, built by Sphinx and then checked."""
