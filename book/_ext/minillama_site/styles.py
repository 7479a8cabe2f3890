"""The style sheets, cut down to the rules that some page of the site can use.

The theme's own sheet styles hundreds of things that this book does not have. A rule stays when every class,
identifier and element that its selector names occurs on a page or, as a word, in a script (they add classes).
"""

import re

import tinycss2

WORD = re.compile(r"[A-Za-z_][\w-]*")
ELEMENT = re.compile(r"<([A-Za-z][\w-]*)")
NAMED = re.compile(r"""\s(?:class|id)=(?:"([^"]*)"|'([^']*)')""")
INLINE_SCRIPT = re.compile(r"<script(?![^>]*application/json)[^>]*>(.*?)</script>", re.DOTALL)
READ = re.compile(r"var\(\s*(--[\w-]+)")
NOTICE = re.compile(r"^!|copyright|license", re.IGNORECASE)
NESTING = {"media", "supports", "layer", "container"}


def prune(sheets, pages, scripts):
    """`sheets` are paths, rewritten in place; `pages` and `scripts` are the texts of the whole site."""
    known = _words(pages, scripts)
    rules = {path: _kept(tinycss2.parse_stylesheet(path.read_text("utf-8")), known) for path in sheets}
    # A custom property that nobody reads may have been read by one that has just gone, too.
    elsewhere = "".join([*scripts, *re.findall(r'\sstyle="[^"]*"', "".join(pages))])
    texts, before = _texts(rules), None
    while texts != before:
        before = texts
        everything = "".join(texts.values())
        read = set(READ.findall(everything + elsewhere)) | set(re.findall(r"--[\w-]+", elsewhere))
        moving = set(WORD.findall("".join(re.findall(r"animation[\w-]*\s*:([^;}]*)", everything))))
        for path in sheets:
            _drop_unread(rules[path], read, moving)
        texts = _texts(rules)
    for path, text in texts.items():
        if text != path.read_text("utf-8"):
            path.write_text(text, encoding="utf-8")


def _words(pages, scripts):
    known = {"html", "body", "root", "dialog"}
    for page in pages:
        known.update(element.lower() for element in ELEMENT.findall(page))
        for quoted in NAMED.findall(page):
            known.update("".join(quoted).split())
        for script in INLINE_SCRIPT.findall(page):
            known.update(WORD.findall(script))
    for script in scripts:
        known.update(WORD.findall(script))
    return known


def _kept(rules, known):
    kept = []
    for rule in rules:
        if rule.type == "comment":
            if NOTICE.search(rule.value):
                kept.append(rule)
        elif rule.type == "qualified-rule":
            prelude = [selector for selector in _selectors(rule.prelude) if _possible(selector, known)]
            if prelude:
                rule.prelude = _joined(prelude)
                kept.append(rule)
        elif rule.type == "at-rule" and rule.lower_at_keyword in NESTING and rule.content is not None:
            rule.content = _kept(tinycss2.parse_rule_list(rule.content), known)
            if rule.content:
                kept.append(rule)
        elif rule.type == "error":
            raise ValueError(f"a style sheet cannot be read: {rule.message}")
        elif rule.type == "at-rule":
            kept.append(rule)
    return kept


def _selectors(prelude):
    """The alternatives between the commas."""
    found = [[]]
    for token in prelude:
        if token == ",":
            found.append([])
        else:
            found[-1].append(token)
    return found


def _joined(selectors):
    joined = list(selectors[0])
    for selector in selectors[1:]:
        joined += [*tinycss2.parse_component_value_list(","), *selector]
    return joined


def _possible(selector, known):
    """What stands in brackets, as in `:not(…)` and `[…]`, is not judged: the rule stays."""
    before = None
    for token in selector:
        if token.type == "hash" and token.value not in known:
            return False
        if token.type == "ident" and before != ":":
            name = token.value if before == "." else token.lower_value
            if name not in known:
                return False
        before = token
    return True


def _drop_unread(rules, read, moving):
    for rule in list(rules):
        if rule.type == "at-rule" and rule.lower_at_keyword in NESTING:
            _drop_unread(rule.content, read, moving)
            if not rule.content:
                rules.remove(rule)
        elif rule.type == "at-rule" and rule.lower_at_keyword.endswith("keyframes"):
            if not moving & set(WORD.findall(tinycss2.serialize(rule.prelude))):
                rules.remove(rule)
        elif rule.type == "qualified-rule":
            parts = tinycss2.parse_blocks_contents(rule.content)
            dead = [part for part in parts if part.type == "declaration" and _unread(part, read)]
            if dead:
                alive = [part for part in parts if part not in dead]
                rule.content = tinycss2.parse_component_value_list(tinycss2.serialize(alive))
                if not any(part.type in ("declaration", "qualified-rule", "at-rule") for part in alive):
                    rules.remove(rule)


def _unread(declaration, read):
    return declaration.name.startswith("--") and declaration.name not in read


def _texts(rules):
    return {path: _text(kept) for path, kept in rules.items()}


def _text(rules):
    written = []
    for rule in rules:
        if rule.type == "at-rule" and rule.lower_at_keyword in NESTING:
            prelude = tinycss2.serialize(rule.prelude).strip()
            written.append(f"@{rule.at_keyword} {prelude} {{\n{_text(rule.content)}}}\n")
        else:
            written.append(rule.serialize().strip() + "\n")
    return "".join(written)
