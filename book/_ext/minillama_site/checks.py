"""Faults in the sources that would otherwise only show on the page: warnings, which fail the build."""

import re

from docutils import nodes
from sphinx.util import logging

LOG = logging.getLogger(__name__)
PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".svg", ".gif", ".webp")
IMG_TAG = re.compile(r"<img\b[^>]*>", re.IGNORECASE)
ALT_TEXT = re.compile(r"""\balt\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
SUMMARY = re.compile(r"<summary\b[^>]*>(.*?)</summary>", re.IGNORECASE | re.DOTALL)


def check_sources(app, doctree):
    for image in doctree.findall(nodes.image):
        _check_alt(image.get("alt"), image)
    for raw in doctree.findall(nodes.raw):
        if "html" not in raw.get("format", ""):
            continue
        for tag in IMG_TAG.findall(raw.astext()):
            found = ALT_TEXT.search(tag)
            _check_alt(found and (found[1] or found[2]), raw)
        for content in SUMMARY.findall(raw.astext()):
            if "$" in content:
                LOG.warning("a formula in <summary> is not rendered: %r", content.strip(), location=raw)


def _check_alt(text, node):
    if not (text or "").strip() or text.strip().lower().endswith(PICTURE_SUFFIXES):
        LOG.warning(
            "a picture has no description (alt text): %r. A notebook's figure takes it from "
            'the cell metadata {"mystnb": {"image": {"alt": "…"}}}',
            text,
            location=node,
        )
