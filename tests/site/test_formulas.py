"""TeX to the MathML that browsers draw: each case is a place where KaTeX's output alone would look wrong."""

import xml.etree.ElementTree as ET

import pytest
from minillama_site import formulas


def parse(tex, display=True):
    return ET.fromstring(formulas.to_mathml(tex, display))


def texts(tex, tag):
    return [element.text for element in parse(tex).iter(tag)]


def test_the_source_does_not_stay_on_the_page():
    assert "annotation" not in formulas.to_mathml(r"\frac{a}{b}", True)
    assert "mathvariant" not in formulas.to_mathml(r"\mathbf{W}\mathbb{R}\mathcal{L}\boldsymbol{\beta}", True)


def test_styled_letters_are_written_out():
    assert texts(r"\mathbf{W}\,\mathbb{R}\,\mathcal{L}\,\mathcal{H}\,\boldsymbol{\beta}", "mi") == list(
        "𝐖ℝℒℋ𝜷"
    )
    assert texts(r"\mathbb{1}", "mn") + texts(r"\mathbb{1}", "mi") == ["𝟙"]
    assert formulas.characters("ITALIC")["h"] == "ℎ" and formulas.characters("ITALIC")["ϵ"] == "𝜖"


def test_only_one_upright_letter_keeps_its_variant():
    upright = [element.attrib for element in parse(r"\mathrm{d}x + \operatorname{RMS}(x)").iter("mi")]
    assert upright == [{"mathvariant": "normal"}, {}, {}, {}]


def widths(tex):
    return [element.tag if element.tag == "mspace" else element.text for element in parse(tex)[0]]


def test_a_function_name_keeps_its_distance():
    assert widths(r"a \log b") == ["a", "mspace", "log", "\u2061", "mspace", "b"]
    assert widths(r"\log(b)") == ["log", "\u2061", "(", "b", ")"]
    assert widths(r"x + \log b") == ["x", "+", "log", "\u2061", "mspace", "b"]
    assert [element.tag for element in parse(r"2\log_2 n")[0]] == ["mn", "mspace", "msub", "mspace", "mi"]


def test_bars_as_delimiters_have_no_space_and_grow():
    norm = list(parse(r"\lVert x \rVert").iter("mo"))
    assert [(bar.text, bar.get("lspace"), bar.get("rspace"), bar.get("stretchy")) for bar in norm] == [
        ("‖", "0", "0", "false")
    ] * 2
    tall = list(parse(r"\left| \frac{a}{b} \right|").iter("mo"))
    assert [(bar.text, bar.get("stretchy"), bar.get("symmetric")) for bar in tall] == [
        ("|", "true", "true")
    ] * 2
    assert parse(r"P(a \mid b)").find(".//mo[.='∣']").attrib == {}


def test_a_tall_bracket_with_an_exponent_is_as_tall_as_its_partner(page):
    page.set_content(formulas.to_mathml(r"\Big( x \Big)^2 + \Big( y \Big)_i", True))
    heights = page.evaluate(
        "[...document.querySelectorAll('mo[minsize]')].map((mo) => mo.getBoundingClientRect().height)"
    )
    assert len(heights) == 4 and min(heights) > 0.9 * max(heights)


def test_limits_go_beside_the_name_in_a_fraction_only():
    assert parse(r"\max_i x_i").find(".//munder") is not None
    fraction = parse(r"\frac{\max_i x_i}{2}").find(".//mfrac")
    assert fraction.find(".//munder") is None and fraction.find(".//msub") is not None
    assert parse(r"\frac{\sum_i x_i}{2}").find(".//mfrac//mo").text == "∑"


def test_accents_are_characters_that_the_font_draws_in_place():
    assert [parse(rf"\{name} x").find(".//mover/mo").text for name in ("hat", "tilde", "bar")] == list("ˆ˜‾")
    assert parse(r"\hat x").find(".//mover/mo").get("stretchy") == "false"
    assert parse(r"\widehat{xyz}").find(".//mover/mo").get("stretchy") == "true"
    assert parse(r"\overline{xyz}").find(".//mover/mo").get("stretchy") == "true"


def test_columns_are_aligned_by_classes():
    cells = [cell.get("class") for cell in parse(r"\begin{aligned}a&=b\\&=c\end{aligned}").iter("mtd")]
    assert cells == ["right", "left"] * 2
    assert parse(r"\begin{aligned}a&=b\end{aligned}").find(".//mtable").attrib == {"class": "aligned"}
    ruled = [cell.get("class") for cell in parse(r"\begin{array}{l|r}a&b\end{array}").iter("mtd")]
    assert ruled == ["left", "right ruled"]
    assert parse(r"\boxed{a}").find(".//mrow[@class='boxed']") is not None


def test_display_and_inline():
    assert parse("x").get("display") == "block" and parse("x", display=False).get("display") is None


@pytest.mark.parametrize(
    ("tex", "reason"),
    [
        (r"\frac{a", "Unexpected end of input"),
        (r"\rms(x)", r"Undefined control sequence: \\rms"),
        (r"\text{a_b}", "Expected 'EOF'"),
        ("é", "unicodeTextInMathMode"),
        (r"\cancel{x}", "cancel"),
        (r"x \tag{1}", "label"),
        (r"\color{red} x", "light and dark"),
        (r"\begin{array}{c}a\\\hline b\end{array}", "between the rows"),
        (r"\href{https://example.org}{x}", "href"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_its_reason(tex, reason):
    with pytest.raises(formulas.FormulaError, match=reason):
        formulas.to_mathml(tex, True)


def test_titles_get_plain_characters():
    assert formulas.to_text(r"\lVert x \rVert_2 \le \mathbb{R}") == "‖x‖2≤ℝ"
    assert formulas.to_text(r"\log x") == "log x"
