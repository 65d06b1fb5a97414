"""Links of a built site."""

from __future__ import annotations

import pytest

from snnkit.site.links import Broken, check


def page(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"<html><body>{body}</body></html>", encoding="utf-8")


def test_links_that_hold_and_links_elsewhere(tmp_path):
    page(
        tmp_path / "index.html",
        '<p id="top"><a href="a/b.html#there">1</a> <a href="a/">2</a> <a href="#top">3</a> <img src="p%20q.png">'
        '<a href="https://doi.org/10.1/2">4</a> <a href="mailto:a@b.c">5</a></p>'
        '<link rel="preconnect" href="//cdn.x">',
    )
    page(tmp_path / "a" / "index.html", "")
    page(
        tmp_path / "a" / "b.html",
        '<h2 id="there"></h2><a href="../index.html">up</a> <a href="https://doi.org/10.1/2">',
    )
    (tmp_path / "p q.png").write_bytes(b"")
    found = check(tmp_path)
    assert found.broken == []
    assert found.external == {"https://doi.org/10.1/2": ["a/b.html", "index.html"]}


def test_what_leads_nowhere_is_named_with_its_page(tmp_path):
    page(tmp_path / "sub" / "one.html", '<a href="two.html"></a><a href="one.html#gone"></a><img src="../no.png">')
    assert check(tmp_path).broken == [
        Broken("sub/one.html", "two.html"),
        Broken("sub/one.html", "one.html#gone"),
        Broken("sub/one.html", "../no.png"),
    ]
    assert str(Broken("a.html", "b")) == "a.html: b"


def test_templates_of_the_theme_are_no_pages(tmp_path):
    page(tmp_path / "_static" / "macros.html", "<a href=\"{{ pathto('x') }}\"></a>")
    assert check(tmp_path) == ([], {})


@pytest.mark.parametrize("link", ["http://[bad", "//[", "a%00b", "a" * 5000, "../outside.html"])
def test_what_is_no_address_or_leaves_the_site_is_broken(tmp_path, link):
    page(tmp_path / "outside.html", "")
    page(tmp_path / "site" / "index.html", f'<a href="{link}"></a>')
    assert check(tmp_path / "site").broken == [Broken("index.html", link)]


def test_spaces_and_umlauts_are_found_plain_and_quoted(tmp_path):
    page(tmp_path / "ü b.html", '<h2 id="ä ö"></h2>')
    page(tmp_path / "index.html", '<a href="ü b.html#ä ö"></a><a href="%C3%BC%20b.html#%C3%A4%20%C3%B6"></a>')
    assert check(tmp_path).broken == []
