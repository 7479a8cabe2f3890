"""The fonts that the built pages ask for, cut down to the characters that the pages use."""

import html
import re
from importlib.metadata import files
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

from . import formulas

MATH_ELEMENT = re.compile(r"<math\b.*?</math>", re.DOTALL)
SINGLE_IDENTIFIER = re.compile(r"<mi>(.)</mi>")


def write_math_font(target, pages):
    """STIX Two Math with the characters of all formulas, its stretching pieces included."""
    characters = set()
    italic = formulas.characters("ITALIC")  # what a browser draws for a one-letter identifier
    for page in pages:
        for math in MATH_ELEMENT.findall(page):
            characters |= set(html.unescape(re.sub(r"<[^>]*>", "", math)))
            letters = map(html.unescape, SINGLE_IDENTIFIER.findall(math))
            characters |= {italic.get(letter, letter) for letter in letters}
    characters |= set("0123456789+−=()[]{}|√ ")
    _write_subset(_packaged("ziamath", "STIXTwoMath-Regular.ttf"), target, map(ord, characters), layout=True)


def write_icon_fonts(static, pages):
    """The theme's icon fonts, cut to the icons in use; its script that draws icons is not loaded."""
    sheet = (static / "styles/pydata-sphinx-theme.css").read_text(encoding="utf-8")
    names = {name for page in pages for name in re.findall(r"\bfa-[a-z0-9-]+", page)}
    codes = {int(code, 16) for code in re.findall(r'--pst-icon-[a-z-]+:\s*"\\([0-9a-f]+)"', sheet)}
    for selectors, code in re.findall(r'([^{}]*):before\{content:"\\([0-9a-f]+)"\}', sheet):
        if names & set(re.findall(r"\.(fa-[a-z0-9-]+)", selectors)):
            codes.add(int(code, 16))
    for font in sorted((static / "vendor/fontawesome/webfonts").glob("*.woff2")):
        font.with_suffix(".ttf").unlink(missing_ok=True)
        _write_subset(font, font, codes)


def _packaged(package, name):
    found = next((file for file in files(package) if file.name == name), None)
    if found is None:
        raise RuntimeError(f"the package {package} no longer contains {name}")
    return Path(found.locate())


def _write_subset(source, target, codes, layout=False):
    options = subset.Options()
    options.flavor = "woff2"
    options.hinting = False
    options.notdef_outline = True
    options.layout_features = ["*"] if layout else []
    font = TTFont(source, lazy=True)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=sorted(codes))
    cutter.subset(font)
    target.parent.mkdir(parents=True, exist_ok=True)
    font.flavor = "woff2"
    font.save(target)
