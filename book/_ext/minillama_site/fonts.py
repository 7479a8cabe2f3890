"""The fonts that the built pages ask for, cut down to the characters that the pages use."""

import hashlib
import html
import logging
import re
import shutil
from importlib.metadata import files
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

from . import formulas

logging.getLogger("fontTools").setLevel(logging.WARNING)
MATH_ELEMENT = re.compile(r"<math\b.*?</math>", re.DOTALL)
SINGLE_IDENTIFIER = re.compile(r"<mi>(.)</mi>")
TAG = re.compile(r"<[^>]*>")
KEYBOARD = set(map(chr, range(0x20, 0x7F)))
TEXT_FACES = {"text.woff2": "Regular", "text-italic.woff2": "It", "text-bold.woff2": "Semibold"}
TEXT_FEATURES = ["kern", "liga", "mark", "mkmk", "ccmp", "tnum"]


def write(static, pages, cache):
    """`pages` are the HTML texts of the whole site."""
    cache.mkdir(exist_ok=True)
    text = KEYBOARD | {c for page in pages for c in html.unescape(TAG.sub("", MATH_ELEMENT.sub("", page)))}
    for name, face in TEXT_FACES.items():
        source = _packaged("font-source-serif-pro", f"SourceSerifPro-{face}.ttf")
        _cut(source, static / "fonts" / name, text, TEXT_FEATURES, cache)
    source = _packaged("ziamath", "STIXTwoMath-Regular.ttf")
    _cut(source, static / "fonts/math.woff2", _formula_characters(pages), ["*"], cache, _even_out_radicals)
    icons = _icons(path.read_text(encoding="utf-8") for path in static.rglob("*.css"))
    for font in sorted((static / "vendor/fontawesome/webfonts").glob("*.woff2")):
        font.with_suffix(".ttf").unlink(missing_ok=True)
        _cut(font, font, icons, [], cache)


def _formula_characters(pages):
    italic = formulas.characters("ITALIC")  # what a browser draws for a one-letter identifier
    found = set("0123456789+−=()[]{}|√ ")
    for page in pages:
        for math in MATH_ELEMENT.findall(page):
            found |= set(html.unescape(TAG.sub("", math)))
            letters = map(html.unescape, SINGLE_IDENTIFIER.findall(math))
            found |= {italic.get(letter, letter) for letter in letters}
    return found


def _icons(sheets):
    """Of 2,000 icons, private characters, those that the sheets still name after they were cut down."""
    return {character for sheet in sheets for character in re.findall("[\ue000-\uf8ff]", sheet)}


def _packaged(package, name):
    found = next((file for file in files(package) if file.name == name), None)
    if found is None:
        raise RuntimeError(f"the package {package} no longer contains {name}")
    return Path(found.locate())


def _even_out_radicals(font):
    """Give the root signs of all heights one width, the smallest one's.

    Chromium reserves the widest one's width for every root and leaves the rest empty, behind each small root.
    """
    variants = font["MATH"].table.MathVariants
    sign = font.getBestCmap()[ord("√")]
    heights = variants.VertGlyphConstruction[variants.VertGlyphCoverage.glyphs.index(sign)]
    width = font["hmtx"][sign][0]
    larger = {record.VariantGlyph for record in heights.MathGlyphVariantRecord} - {sign}
    larger |= {part.glyph for part in heights.GlyphAssembly.PartRecords}
    for name in sorted(larger):
        advance, left = font["hmtx"][name]
        glyph = font["glyf"][name]
        glyph.coordinates.scale((width / advance, 1))
        glyph.coordinates.toInt()
        glyph.recalcBounds(font["glyf"])
        font["hmtx"][name] = (width, round(left * width / advance))


def _cut(source, target, characters, features, cache, change=None):
    """Write the subset, with a math font's stretching pieces; it takes seconds, so it is remembered."""
    wanted = "".join(sorted(characters))
    recipe = [source.read_bytes(), wanted.encode(), "".join(features).encode(), Path(__file__).read_bytes()]
    key = hashlib.sha256(b"\0".join(recipe)).hexdigest()
    kept = cache / f"{key}.woff2"
    if not kept.exists():
        options = subset.Options(flavor="woff2", hinting=False, notdef_outline=True, layout_features=features)
        # The fonts' licenses reserve their names for the unchanged fonts; the notices (0, 13, 14) stay.
        options.name_IDs = [0, 13, 14]
        font = TTFont(source)
        if change:
            change(font)
        cutter = subset.Subsetter(options)
        cutter.populate(text=wanted)
        cutter.subset(font)
        font.flavor = "woff2"
        font.save(kept)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(kept, target)
