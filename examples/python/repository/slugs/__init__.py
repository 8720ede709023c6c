"""Turns titles into the names that addresses of pages have."""

import re


def slug(title):
    """Returns the title in lower case, with one hyphen between its words."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower())
