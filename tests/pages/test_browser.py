"""The browser that other tests open pages with notices what goes wrong in one."""

import pytest


def test_a_page_is_opened_from_its_file(open_page, tmp_path):
    path = tmp_path / "page.html"
    path.write_text("<title>a page</title><p>text")
    page = open_page(path)
    assert page.title() == "a page"
    assert page.inner_text("p") == "text"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<script>console.error('broken')</script>", "broken"),
        ("<script>throw new Error('thrown')</script>", "thrown"),
        ("<img src='http://127.0.0.1:9/picture.png'>", "asked for http://127.0.0.1:9/picture.png"),
    ],
)
def test_what_goes_wrong_in_a_page_is_noticed(watched_page, tmp_path, body, said):
    path = tmp_path / "page.html"
    path.write_text(f"<title>a page</title>{body}")
    _, wrong = watched_page(path)
    assert any(said in text for text in wrong)
