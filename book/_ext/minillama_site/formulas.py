"""TeX to MathML at build time, so that a page needs no script to show a formula.

KaTeX parses the TeX (its single file comes with the package sphinxcontrib-katex and runs in QuickJS).
What it writes is full MathML 3; browsers draw MathML Core. The functions below translate the difference.
"""

import json
import unicodedata
import xml.etree.ElementTree as ET
from functools import cache
from importlib.metadata import files

import quickjs

NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"
APPLY = "\u2061"  # the invisible "function application" that KaTeX puts after \log, \operatorname{RMS} …
THIN_SPACE = "0.1667em"
BARS = {"\u2223": "|", "|": "|", "\u2225": "\u2016", "\u2016": "\u2016"}
LIMITS_BESIDE = {"munder": "msub", "mover": "msup", "munderover": "msubsup"}
# Core draws these characters when they are written out; mathvariant it knows only as "normal".
STYLES = {
    "bold": "BOLD",
    "italic": "ITALIC",
    "bold-italic": "BOLD ITALIC",
    "script": "SCRIPT",
    "bold-script": "BOLD SCRIPT",
    "fraktur": "FRAKTUR",
    "bold-fraktur": "BOLD FRAKTUR",
    "double-struck": "DOUBLE-STRUCK",
    "sans-serif": "SANS-SERIF",
    "bold-sans-serif": "SANS-SERIF BOLD",
    "sans-serif-italic": "SANS-SERIF ITALIC",
    "sans-serif-bold-italic": "SANS-SERIF BOLD ITALIC",
    "monospace": "MONOSPACE",
}


class FormulaError(ValueError):
    """A formula that KaTeX refuses or that browsers cannot draw."""


def to_mathml(tex, display):
    """The `<math>` element for `tex`; a `FormulaError` says what is wrong with it."""
    math = ET.fromstring(_katex(tex, display)).find(f"{NAMESPACE}math")
    math[:] = [child for child in math.find(f"{NAMESPACE}semantics") if not child.tag.endswith("annotation")]
    for element in math.iter():
        element.tag = element.tag.removeprefix(NAMESPACE)
    _refuse_what_core_cannot_draw(math, tex)
    _space_function_names(math)
    _limits_beside_in_fractions(math)
    _let_raised_delimiters_grow(math)
    for element in math.iter():
        _write_out_style(element)
        _fit_accent(element)
        _close_up_bars(element)
        _align_columns(element)
    if not display:
        math.attrib.pop("display", None)
    return ET.tostring(math, encoding="unicode", short_empty_elements=False)


def to_text(tex):
    """The formula as plain characters, for page titles and search results."""
    return "".join(ET.fromstring(to_mathml(tex, display=False)).itertext()).replace(APPLY, " ")


@cache
def _engine():
    source = next((f for f in files("sphinxcontrib-katex") if f.name == "katex.min.js"), None)
    if source is None:
        raise RuntimeError("the package sphinxcontrib-katex no longer contains katex.min.js")
    context = quickjs.Context()
    context.eval(source.locate().read_text(encoding="utf-8"))
    # JSON, because QuickJS hands a long concatenated string to Python only in one piece.
    context.eval(
        """function render(tex, displayMode) {
            const strictly = {throwOnError: true, strict: "error", trust: false};
            return JSON.stringify(katex.renderToString(tex, {displayMode, output: "mathml", ...strictly}));
        }"""
    )
    return context


def _katex(tex, display):
    try:
        return json.loads(_engine().get("render")(tex, display))
    except quickjs.JSException as error:
        reason = str(error).split("\n    at ")[0].removeprefix("ParseError: ").strip()
        raise FormulaError(reason.replace("\u0332", "")) from None


def _refuse_what_core_cannot_draw(math, tex):
    for element in math.iter():
        if element.tag == "menclose":
            if element.get("notation") != "box":
                raise FormulaError(f"browsers do not draw \\cancel and its kin: {tex!r}")
            element.tag = "mrow"
            element.attrib = {"class": "boxed"}
        if element.get("width") == "100%":
            raise FormulaError(f"\\tag cannot be drawn; give the formula a label instead: {tex!r}")
        if element.get("mathcolor") or element.get("mathbackground"):
            raise FormulaError(f"a fixed color cannot suit light and dark pages: {tex!r}")


def _space_function_names(math):
    """Put TeX's thin space around a function's name: browsers would write `a log x` as `alogx`."""
    for parent in list(math.iter()):
        children = list(parent)
        for place, child in enumerate(children):
            follows = children[place + 1] if place + 1 < len(children) else None
            mark = follows if _is_apply(follows) else None
            if mark is not None:
                follows = children[place + 2] if place + 2 < len(children) else None
            elif not _is_decorated_name(child):
                continue
            if parent.tag not in ("mrow", "math", "mstyle", "mtd", "msqrt"):
                continue
            if follows is not None and follows.tag != "mspace" and not _opens(follows):
                anchor = mark if mark is not None else child
                parent.insert(list(parent).index(anchor) + 1, _thin_space())
            before = children[place - 1] if place else None
            if before is not None and not _is_operator(before) and before.tag != "mspace":
                parent.insert(list(parent).index(child), _thin_space())


def _thin_space():
    return ET.Element("mspace", {"width": THIN_SPACE})


def _is_apply(element):
    return element is not None and element.tag == "mo" and element.text == APPLY


def _is_decorated_name(element):
    """`\\log_2` and `\\max_i` carry the application mark inside their base."""
    if element.tag not in ("msub", "msup", "msubsup", "munder", "mover", "munderover") or not len(element):
        return False
    base = element[0]
    return base.tag == "mrow" and len(base) > 0 and _is_apply(base[-1])


def _is_operator(element):
    if element.tag in ("mrow", "mstyle") and len(element):
        return _is_operator(element[-1])
    return element.tag == "mo" or (element.tag == "mrow" and not len(element))


def _opens(element):
    if element.tag in ("mrow", "mstyle") and len(element):
        return _opens(element[0])
    return element.tag == "mo"


@cache
def characters(style):
    """For one style of Unicode's mathematical letters, the plain letter to the styled one."""
    found = {}
    for code in [*range(0x2100, 0x2150), *range(0x1D400, 0x1D800)]:
        kind, _, plain = unicodedata.decomposition(chr(code)).partition(" ")
        name = unicodedata.name(chr(code), "").removeprefix("MATHEMATICAL ")
        name = name.replace("BLACK-LETTER", "FRAKTUR").replace("PLANCK CONSTANT", "ITALIC SMALL H")
        letter = name.removeprefix(f"{style} ")
        if kind == "<font>" and letter != name and letter.split()[0] not in " ".join(STYLES.values()).split():
            found.setdefault(chr(int(plain, 16)), chr(code))
    return found


def _write_out_style(element):
    variant = element.get("mathvariant")
    if variant is None:
        return
    if variant == "normal":
        if element.tag != "mi" or len(element.text or "") != 1:
            del element.attrib["mathvariant"]
        return
    del element.attrib["mathvariant"]
    if variant not in STYLES:
        raise FormulaError(f"unknown mathvariant {variant!r}")
    styled = characters(STYLES[variant])
    element.text = "".join(styled.get(character, character) for character in element.text or "")


def _fit_accent(element):
    """Accents as characters that the font draws in place; only a wide one stretches over what it covers."""
    if element.tag != "mover" or element.get("accent") != "true" or element[1].tag != "mo":
        return
    mark = element[1]
    if mark.get("stretchy") == "true":
        mark.text = {"^": "\u0302", "~": "\u02dc"}.get(mark.text, mark.text)
    else:
        mark.text = {"^": "\u02c6", "~": "\u02dc", "\u02c9": "\u203e"}.get(mark.text, mark.text)
        mark.set("stretchy", "true" if mark.text == "\u20d7" else "false")


def _close_up_bars(element):
    """To browsers a bar is a relation with space around it; as a delimiter it has none, and may grow."""
    if element.tag != "mo" or element.text not in BARS:
        return
    if "fence" in element.attrib:
        element.attrib = {"stretchy": "true", "symmetric": "true"}
    elif "stretchy" in element.attrib:
        element.attrib = {"stretchy": "false"}
    else:
        return
    element.text = BARS[element.text]
    element.attrib |= {"lspace": "0", "rspace": "0"}


def _limits_beside_in_fractions(math):
    """TeX sets the index of \\max below it only in displayed style; browsers would in a fraction, too."""
    for fraction in math.iter("mfrac"):
        for element in fraction.iter():
            if element.tag in LIMITS_BESIDE and _is_decorated_name(element):
                element.tag = LIMITS_BESIDE[element.tag]


def _let_raised_delimiters_grow(math):
    """`\\Big)^2` is one bracket with an exponent: browsers stretch it only inside a row of its own."""
    for script in math.iter():
        if script.tag in ("msub", "msup", "msubsup") and script[0].tag == "mo" and script[0].get("minsize"):
            row = ET.Element("mrow")
            row.append(script[0])
            script[0] = row


def _align_columns(element):
    """Core has no columnalign and no columnlines: the classes carry them to the style sheet."""
    if element.tag != "mtable":
        return
    if element.get("rowlines") or element.get("frame"):
        raise FormulaError("browsers do not draw lines between the rows of an array")
    alignment = (element.get("columnalign") or "center").split()
    lines = (element.get("columnlines") or "none").split()
    touching = element.get("columnspacing") == "0em"
    element.set("class", "aligned" if touching else "grid")
    for row in element:
        for place, cell in enumerate(row):
            names = [alignment[min(place, len(alignment) - 1)]]
            if place and lines[min(place - 1, len(lines) - 1)] != "none":
                names.append("ruled")
            cell.set("class", " ".join(names))
    for name in ("columnalign", "columnspacing", "rowspacing", "columnlines"):
        element.attrib.pop(name, None)
