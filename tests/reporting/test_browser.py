"""The page in a real browser: it loads, the slider moves chunks, filters filter, and nobody is left out."""

from __future__ import annotations

import re

import pytest

from pccl.reporting.page.data import latest_chunks
from tests.reporting import pages
from tests.reporting.browser import CHROMIUM, Browser

if CHROMIUM is None:
    pytest.skip(
        "Chromium is not installed; 'apt-get install chromium' does that", allow_module_level=True
    )


@pytest.fixture(scope="module")
def chromium():
    with Browser() as browser:
        yield browser


@pytest.fixture
def browser(chromium):
    """A window with the page about two groups, as it is after opening it."""
    chromium.resize(1200, 900)
    chromium.prefer(color_scheme="light", reduced_motion="no-preference")
    chromium.open(pages.page("two_groups"))
    yield chromium
    assert chromium.complaints == []


def text(browser, name):
    browser.settle()
    return browser.run(f"document.getElementById('{name}').textContent")


def pixels(browser, name):
    browser.settle()
    return browser.run(f"document.getElementById('{name}').toDataURL()")


def moving(browser):
    """How many transfers are under way."""
    found = re.search(r"([\d,]+) transfers?", text(browser, "now"))
    return int(found[1].replace(",", ""))


def choose(browser, name, value):
    """Set a control as a user would."""
    browser.run(
        f"(() => {{ const control = document.getElementById('{name}'); control.value = '{value}';"
        "control.dispatchEvent(new Event('input')); control.dispatchEvent(new Event('change')); })()"
    )


def focus(browser, name):
    browser.run(f"document.getElementById('{name}').focus()")


def scroll_to(browser, name):
    """Bring something into the middle of the window, and wait until what is drawn only in sight is drawn."""
    browser.run(
        f"document.getElementById('{name}').scrollIntoView({{block: 'center', behavior: 'instant'}})"
    )
    browser.run("new Promise((done) => setTimeout(done, 50))")
    browser.settle()


def centre_of_device(browser, device):
    """Where a device is in the window: the mesh has 8 x 8 of them, 1 apart, drawn as large as the canvas allows."""
    scroll_to(browser, "network")
    box = browser.run(
        "(() => { const b = document.getElementById('network').getBoundingClientRect();"
        "return [b.left, b.top, b.width, b.height] })()"
    )
    document, columns = pages.contents(pages.page("two_groups"))
    margin = 2.2 * document["radius"]
    left, top, right, bottom = document["extent"]
    scale = min(box[2] / (right - left + 2 * margin), box[3] / (bottom - top + 2 * margin), 110)
    x = box[0] + box[2] / 2 + scale * (float(columns["x"][device]) - (left + right) / 2)
    y = box[1] + box[3] / 2 + scale * (float(columns["y"][device]) - (top + bottom) / 2)
    return x, y


# --- loading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["two_groups", "hostile", "million"])
def test_pages_load_without_complaints_and_alone(chromium, name):
    chromium.open(pages.page(name))
    chromium.settle()
    assert chromium.complaints == []
    assert [url for url in chromium.requests if not url.startswith("data:")] == [
        pages.page(name).resolve().as_uri()
    ]
    assert moving(chromium) > 0


def test_a_page_about_nothing_works(chromium):
    chromium.open(pages.page("idle"))
    chromium.run("document.getElementById('play').click()")
    focus(chromium, "network")
    chromium.press("ArrowRight")
    assert text(chromium, "picked").startswith("NPU 0, receives 0 B over 0 links")
    assert text(chromium, "now").endswith("0 transfers under way, 0.0 % of the links busy.")
    assert chromium.complaints == []


def test_names_that_try_to_be_html_stay_text(chromium):
    chromium.open(pages.page("hostile"))
    assert chromium.run("document.title").endswith(pages.HOSTILE)
    assert chromium.run("document.images.length") == 0
    assert pages.HOSTILE in chromium.run("document.querySelector('h1').textContent")


def test_an_old_browser_is_told(chromium):
    gone = chromium.send(
        "Page.addScriptToEvaluateOnNewDocument", source="delete window.DecompressionStream"
    )
    try:
        chromium.send("Page.navigate", url=pages.page("two_groups").resolve().as_uri())
        chromium.wait("document.getElementById('trouble')?.hidden === false")
        assert "Browsers of 2023 and later can." in text(chromium, "trouble")
        assert chromium.run("document.querySelectorAll('.needs-script[hidden]').length") == 2
        assert chromium.run("document.querySelectorAll('#worst tbody tr').length") == 40
    finally:
        chromium.send("Page.removeScriptToEvaluateOnNewDocument", identifier=gone["identifier"])


# --- time ------------------------------------------------------------------------------------------------------------


def test_the_slider_moves_chunks(browser):
    choose(browser, "time", 100)
    seen, said, clock = pixels(browser, "network"), text(browser, "now"), text(browser, "clock")
    focus(browser, "time")
    browser.press("ArrowRight")
    assert pixels(browser, "network") != seen
    assert text(browser, "clock") != clock
    choose(browser, "time", 100)
    assert (pixels(browser, "network"), text(browser, "now")) == (seen, said)
    assert browser.run("document.getElementById('time').getAttribute('aria-valuetext')") == clock


def test_as_many_chunks_move_as_the_algorithm_says(browser):
    algorithm = pages.two_groups()
    t, duration = algorithm.transfers, int(algorithm.duration)
    for step in (0, 137, 500, 900, 1000):
        choose(browser, "time", step)
        now = duration * step / 1000
        assert moving(browser) == int(((t.start <= now) & (t.arrival > now)).sum())


def test_playing_moves_chunks_until_paused(browser):
    choose(browser, "time", 0)
    seen = pixels(browser, "network")
    browser.run("document.getElementById('play').click()")
    assert browser.run("document.getElementById('play').textContent").endswith("Pause")
    browser.wait("Number(document.getElementById('time').value) > 20")
    focus(browser, "network")
    browser.press(" ", "Space", " ")
    assert browser.run("document.getElementById('play').getAttribute('aria-pressed')") == "false"
    stopped = browser.run("document.getElementById('time').value")
    assert pixels(browser, "network") != seen
    browser.settle()
    assert browser.run("document.getElementById('time').value") == stopped


def test_playing_ends_at_the_end_and_begins_again(browser):
    choose(browser, "speed", 4)
    choose(browser, "time", 990)
    focus(browser, "time")
    browser.press(" ", "Space", " ")
    browser.wait("document.getElementById('play').getAttribute('aria-pressed') === 'false'")
    assert browser.run("document.getElementById('time').value") == "1000"
    assert moving(browser) == 0
    browser.press(" ", "Space", " ")
    browser.wait("Number(document.getElementById('time').value) < 500")


def test_with_reduced_motion_time_goes_on_in_steps(browser):
    browser.prefer(reduced_motion="reduce")
    choose(browser, "time", 0)
    browser.run("document.getElementById('play').click()")
    seen = browser.run(
        "new Promise((done) => { const seen = new Set(); const look = () => {"
        "seen.add(document.getElementById('time').value); if (seen.size > 2) done([...seen].map(Number));"
        "else requestAnimationFrame(look); }; look(); })"
    )
    assert seen == [0, 42, 83]  # of 1000, in 24 steps


def test_charts_lead_to_a_time(browser):
    scroll_to(browser, "curve")
    x, y, width = browser.run(
        "(() => { const b = document.getElementById('curve').getBoundingClientRect();"
        "return [b.left, b.top + b.height / 2, b.width] })()"
    )
    middle = x + 44 + (width - 54) / 2
    for kind in ("mousePressed", "mouseReleased"):
        browser.move(middle, y, kind, button="left", buttons=1, clickCount=1)
    assert browser.run("Math.abs(Number(document.getElementById('time').value) - 500) < 5")
    browser.move(middle, y)
    assert re.search(r"[\d.]+ us: [\d.]+ % of the links busy", text(browser, "tip"))


# --- filters ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["group", "collective"])
def test_filters_filter(browser, name):
    everything, drawn, curve, heat = (
        moving(browser),
        *(pixels(browser, c) for c in ("network", "curve", "heat")),
    )
    counts = []
    for value in (0, 1):
        choose(browser, name, value)
        counts.append(moving(browser))
        assert pixels(browser, "network") != drawn
        scroll_to(browser, "heat")
        assert pixels(browser, "heat") != heat
        scroll_to(browser, "curve")
        assert pixels(browser, "curve") != curve
    assert min(counts) > 0
    assert sum(counts) == everything
    browser.run("document.getElementById('clear').click()")
    assert moving(browser) == everything
    assert browser.run(f"document.getElementById('{name}').value") == "-1"


def test_members_of_groups_have_their_colours(browser):
    """The first row and the last have those of their chunks, all else has none; a chosen group stands out by itself."""

    def colour(device):
        # Between the number in the middle and the rim.
        x, y = centre_of_device(browser, device)
        return browser.run(
            "(() => { const canvas = document.getElementById('network'), box = canvas.getBoundingClientRect();"
            "const ratio = canvas.width / box.width, copy = document.createElement('canvas');"
            "const pen = copy.getContext('2d', { willReadFrequently: true });"
            f"pen.drawImage(canvas, -ratio * ({x} - box.left), -ratio * ({y} - box.top - 9));"
            "return [...pen.getImageData(0, 0, 1, 1).data] })()"
        )

    choose(browser, "time", 0)
    first, outside, last = (colour(device) for device in (3, 27, 60))
    assert first == [245, 217, 153, 255]
    assert outside == [255, 255, 255, 255]
    assert last == [187, 225, 246, 255]
    choose(browser, "group", 1)
    assert colour(3) == outside
    assert colour(60) == [11, 92, 173, 255]
    assert "NPUs have the colour of their groups" in text(browser, "keys")


def test_filters_join(browser):
    choose(browser, "group", 0)
    choose(browser, "collective", 1)
    assert moving(browser) == 0


def test_one_chunk_can_be_followed(browser):
    algorithm = pages.two_groups()
    chunk = int(latest_chunks(algorithm, 1)[0])
    t = algorithm.transfers
    rows = (t.chunk == chunk).nonzero()[0]
    choose(browser, "time", 1000)
    choose(browser, "chunk", chunk)
    assert moving(browser) >= 1  # time has gone back to when there is something to see
    now = int(t.start[rows[0]] + t.arrival[rows[0]]) // 2
    choose(browser, "time", round(now / int(algorithm.duration) * 1000))
    assert 1 <= moving(browser) <= len(rows)
    said = text(browser, "chunk-text")
    assert said.startswith(f"chunk {chunk} of ")
    assert f"NPU {t.src[rows[0]]} → NPU {t.dst[rows[0]]} at " in said
    browser.run("document.getElementById('chunk-after').click()")
    browser.run("document.getElementById('chunk-before').click()")
    assert browser.run("document.getElementById('chunk').value") == str(chunk)
    choose(browser, "chunk", 99999)
    assert "There is no chunk 99999" in text(browser, "chunk-text")


def test_chunks_outside_the_sample_are_said_to_be(chromium):
    chromium.open(pages.page("million"))
    _, columns = pages.contents(pages.page("million"))
    missing = next(n for n in range(999_000) if n not in set(columns["chunk"][:1000].tolist()))
    choose(chromium, "chunk", missing)
    assert f"Chunk {missing} is not in the sample" in text(chromium, "chunk-text")


def test_tables_lead_to_the_network(browser):
    chunk = int(latest_chunks(pages.two_groups(), 1)[0])
    browser.run("document.querySelector('[data-chunk] button').click()")
    assert browser.run("document.getElementById('chunk').value") == str(chunk)
    browser.run("document.querySelector('[data-link] button').click()")
    assert re.match(
        r"link \d+ \(NPU \d+ → NPU \d+\), 50GiB/s, 500ns, busy [\d.]+ %", text(browser, "picked")
    )


# --- pointing, keys, and listening -----------------------------------------------------------------------------------


def test_pointing_tells_names_and_numbers(browser):
    choose(browser, "time", 0)
    choose(browser, "chunk", 0)  # so that no chunk is in the way
    browser.move(*centre_of_device(browser, 36))
    assert text(browser, "tip").startswith("NPU 36\nreceives ")
    (x, y), (to, _) = centre_of_device(browser, 36), centre_of_device(browser, 37)
    browser.move((x + to) / 2, y)
    assert re.match(
        r"link \d+ \(NPU 3[67] → NPU 3[67]\)\n50GiB/s, 500ns\nbusy", text(browser, "tip")
    )


def test_arrow_keys_go_from_device_to_device(browser):
    focus(browser, "network")
    for key, device in (
        ("ArrowRight", 0),
        ("ArrowRight", 1),
        ("ArrowDown", 9),
        ("ArrowLeft", 8),
        ("ArrowUp", 0),
    ):
        browser.press(key)
        assert text(browser, "picked").startswith(f"NPU {device}, receives ")
    assert "in group 0-7" in text(browser, "picked")


def test_every_control_has_a_name_and_can_be_reached(browser):
    tree = browser.send("Accessibility.getFullAXTree")["nodes"]
    roles = {
        "button",
        "slider",
        "combobox",
        "spinbutton",
        "link",
        "application",
        "table",
        "image",
        "region",
    }
    found = [
        (n["role"]["value"], n.get("name", {}).get("value", "")) for n in tree if n.get("role")
    ]
    named = [(role, name) for role, name in found if role in roles]
    assert {role for role, _ in named} == roles
    assert [role for role, name in named if not name] == []
    assert {name for role, name in found if role == "group"} >= {"Filters", "Player", "Zoom"}
    browser.run("document.body.focus(); scrollTo(0, 0)")
    reached = []
    for _ in range(25):
        browser.press("Tab")
        reached.append(browser.run("document.activeElement.id"))
    order = [name for name in reached if name]
    assert order[:8] == [
        "group",
        "collective",
        "chunk",
        "chunk-before",
        "chunk-after",
        "clear",
        "network",
        "play",
    ]
    assert order[8:10] == ["time", "speed"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_have_contrast(browser, scheme):
    browser.prefer(color_scheme=scheme)
    pairs = [
        ("text", "page"),
        ("soft", "page"),
        ("soft", "panel"),
        ("text", "panel"),
        ("accent", "page"),
    ]
    for front, back in [
        *pairs,
        ("on-accent", "accent"),
        ("page", "text"),
        ("text", "device"),
        ("page", "member"),
    ]:
        front_colour, back_colour = (
            browser.run(
                f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()"
            )
            for name in (front, back)
        )
        assert contrast(front_colour, back_colour) >= 4.5, (scheme, front, back)


def contrast(first, second):
    def luminance(colour):
        parts = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
        linear = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(first), luminance(second)))
    return (light + 0.05) / (dark + 0.05)


def test_dark_mode_is_dark_everywhere(browser):
    drawn = pixels(browser, "network")
    background = "getComputedStyle(document.body).backgroundColor"
    assert browser.run(background) == "rgb(255, 255, 255)"
    browser.prefer(color_scheme="dark")
    browser.wait(f"{background} === 'rgb(20, 23, 28)'")
    assert pixels(browser, "network") != drawn


@pytest.mark.parametrize("name", ["two_groups", "million"])
def test_a_phone_shows_all_without_scrolling_sideways(chromium, name):
    chromium.resize(360, 740, phone=True)
    chromium.open(pages.page(name))
    chromium.settle()
    assert chromium.run("document.documentElement.scrollWidth") <= 360
    small = chromium.run(
        "[...document.querySelectorAll('.controls button, .controls select, .controls input')]"
        ".filter((control) => control.getBoundingClientRect().height < 36).map((control) => control.id)"
    )
    assert small == []
    assert chromium.complaints == []


# --- size ------------------------------------------------------------------------------------------------------------


def test_a_million_transfers_do_not_freeze_the_page(chromium):
    chromium.resize(1200, 900)
    chromium.prefer(color_scheme="light", reduced_motion="no-preference")
    chromium.open(pages.page("million"))
    chromium.run("document.getElementById('watch').scrollIntoView()")
    frames, longest = chromium.run(
        "new Promise((done) => { document.getElementById('play').click(); let frames = 0, longest = 0;"
        "const first = performance.now(); let last = first; const look = () => { const now = performance.now();"
        "longest = Math.max(longest, now - last); last = now; frames++; scrollBy(0, 8);"
        "if (now - first < 2000) requestAnimationFrame(look); else done([frames, longest]); };"
        "requestAnimationFrame(look); })"
    )
    assert frames > 10  # 5 a second, on however slow a machine
    assert longest < 1000  # milliseconds
    chromium.run("document.getElementById('play').click()")
    assert chromium.run("Number(document.getElementById('time').value)") > 260
    assert chromium.complaints == []
