"""The interview page in a browser: all answers at once, and none lost without scripts or to the search."""

PAGE = "book/interview"


def test_one_button_opens_and_closes_all_answers(page, site_url):
    page.goto(f"{site_url}{PAGE}.html")
    button = page.get_by_role("button", name="Open all answers")
    closed, answer = page.locator("article details:not([open])"), page.locator("article details p").last
    assert closed.count() == page.locator("article details").count() > 0 and not answer.is_visible()
    button.focus()
    page.keyboard.press("Enter")
    assert closed.count() == 0 and answer.is_visible()
    page.get_by_role("button", name="Close all answers").click()
    assert closed.count() == page.locator("article details").count()
    page.locator("article summary").first.click()
    button.click()  # one was open already: the others join it
    assert closed.count() == 0


def test_without_scripts_there_is_no_button_and_every_fold_opens(browser, site_url):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site_url}{PAGE}.html")
    assert page.locator("article button").count() == 0
    page.locator("article summary").first.click()
    assert page.locator("article details p").first.is_visible()
    context.close()


def test_on_paper_every_answer_is_open_and_the_button_gone(page, site_url):
    page.goto(f"{site_url}{PAGE}.html")
    page.emulate_media(media="print")
    assert page.locator("article button").count() == 1 and not page.locator("article button").is_visible()
    for answer in page.locator("article details").all():
        assert answer.locator("p").first.is_visible()


def test_the_search_finds_questions_and_answers(page, site_url):
    for word in ("overfit", "safetensors", "spikes"):
        page.goto(f"{site_url}search.html?q={word}")
        page.locator(f"#search-results a[href^='{PAGE}.html']").first.wait_for()
