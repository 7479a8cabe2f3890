"""How soon the built pages answer: milliseconds from a key to the painted frame.

    python benchmarks/controls.py [--pages book/01_rmsnorm,book/02_rope] [--site FOLDER] [--rounds 1]
                                  [--write]

Chromium opens every page of `_build/html` (`make book` comes first) at the machine's own speed and slowed
four times, about the speed of a cheap phone. Every slider and menu of every explorer is moved by real key
presses through its range, every option of every question is chosen, the first folds are opened and the
colors switched. `painted` runs from the key's own time stamp to the first task after the frame that shows
the answer, so the wait for that frame, up to 17 ms, is in it, and whatever else the machine does. `worked`
is the time of the page's main thread on the processor until then: script, style, layout and paint. Each
control is printed; `--write` puts a summary of all into benchmarks/results/controls.json.
"""

import argparse
import json
import os
import platform
import statistics
import sys
from pathlib import Path

from minillama.viz.results import record

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
RESULT = Path(__file__).parent / "results" / "controls.json"
SLOWED = {1: "At the machine's own speed", 4: "Slowed four times"}
WORDS = {"painted": "from the key to the painted frame", "worked": "work of the page for it"}
MOST_STEPS, FOLDS = 12, 5
ALLOWED = 50  # milliseconds

WATCH = """
addEventListener("keydown", ({ timeStamp }) => requestAnimationFrame(() => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => window.painted(performance.now() - timeStamp);
  port2.postMessage(0);
}), true);
"""


class Meter:
    """Presses keys and notes, for each, when its frame was there and how long the page's thread worked."""

    def __init__(self, page, slowed):
        self.page, self.cdp = page, page.context.new_cdp_session(page)
        self.cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.cdp.send("Emulation.setCPUThrottlingRate", {"rate": slowed})

    def worked(self):
        metrics = {each["name"]: each["value"] for each in self.cdp.send("Performance.getMetrics")["metrics"]}
        return 1000 * metrics["TaskDuration"]

    def press(self, key, times):
        self.page.evaluate("() => { window.frame = new Promise((done) => { window.painted = done; }); }")
        before = self.worked()
        self.page.keyboard.press(key)
        waited = self.page.evaluate("window.frame")
        times.append((waited, self.worked() - before))


def move(press, explorer):
    times = []
    for control in explorer.locator(".ml-control input, .ml-control select").all():
        control.focus()
        slider = control.get_attribute("type") == "range"
        count = int(control.get_attribute("max")) + 1 if slider else control.locator("option").count()
        press("Home", times)
        for _ in range(min(count - 1, MOST_STEPS)):
            press("ArrowRight" if slider else "ArrowDown", times)
        press("End", times)
    explorer.locator(".ml-reset").focus()
    press("Enter", times)
    return times


def answer(press, question):
    times = []
    question.get_by_role("radio").first.focus()
    press("Space", times)
    for _ in range(question.get_by_role("radio").count() - 1):
        press("ArrowDown", times)
    return times


def fold(press, page):
    times = []
    for summary in page.locator("main details > summary").all()[:FOLDS]:
        if summary.is_visible():
            summary.focus()
            press("Enter", times)
    return times


def recolor(press, page):
    times = []
    page.locator(".article-header-buttons .theme-switch-button").focus()
    for _ in range(3):
        press("Enter", times)
        page.wait_for_function("!document.querySelector('.waiting')")
    return times


def measure(page, press):
    """Name of each group of controls to its times."""
    found = {}
    for explorer in page.locator(".ml-explorer").all():
        found[explorer.get_attribute("data-name")] = move(press, explorer)
    for number, question in enumerate(page.locator(".ml-choice").all(), 1):
        found[f"question {number}"] = answer(press, question)
    found |= {"folds": fold(press, page), "colors": recolor(press, page)}
    return {name: times for name, times in found.items() if times}


def summary(times):
    return {
        kind: {"median": round(statistics.median(values), 1), "worst": round(max(values), 1)}
        for kind, values in zip(WORDS, zip(*times, strict=True), strict=True)
    }


def of_all(pages, kind):
    """One control's time is the median of its moves. The colors restyle a whole page: told apart."""
    colors = [found["colors"][kind] for found in pages.values()]
    others = [times[kind] for found in pages.values() for name, times in found.items() if name != "colors"]
    return {
        "middle control": round(statistics.median(each["median"] for each in others), 1),
        "slowest control": float(max(each["median"] for each in others)),
        "slowest single move": float(max(each["worst"] for each in others)),
        "color switch, middle page": round(statistics.median(each["median"] for each in colors), 1),
        "color switch, slowest page": float(max(each["median"] for each in colors)),
    }


def main():
    import browser as chromium
    import build
    import serve
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", default=",".join(build.pages(ROOT)), help="names as in _toc.yml")
    parser.add_argument(
        "--site", type=Path, default=ROOT / "_build" / "html", help="default: what make book built"
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.name}")
    args = parser.parse_args()
    measured = {}
    with serve.running(args.site) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.find(), args=chromium.FLAGS)
        result = {
            "column": f"ms, of {ALLOWED} allowed",
            "Chromium": browser.version.split(".")[0],
            "machine": f"{platform.machine()} CPU, {os.cpu_count()} cores",
            "load": f"{os.getloadavg()[0]:.1f}",  # of other programs, before it starts
            "rounds": args.rounds,
        }
        for slowed in SLOWED:
            measured[slowed] = pages = {}
            for name in args.pages.split(","):
                context = browser.new_context(viewport={"width": 1280, "height": 844})
                page = context.new_page()
                page.add_init_script(WATCH)
                page.goto(f"{address}{name}.html", wait_until="networkidle")
                meter = Meter(page, slowed)
                rounds = [measure(page, meter.press) for _ in range(args.rounds)]
                names = rounds[0]
                pages[name] = {each: summary([t for found in rounds for t in found[each]]) for each in names}
                for each, times in pages[name].items():
                    shown = "; ".join(f"{kind} {times[kind]}" for kind in WORDS)
                    print(f"{slowed}x {name} {each}: {shown}", flush=True)
                context.close()
        browser.close()
    for slowed, pages in measured.items():
        for kind, words in WORDS.items():
            result[f"{SLOWED[slowed]}, {words}"] = of_all(pages, kind)
    print(json.dumps(result, indent=1))
    if args.write:
        record(RESULT, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
