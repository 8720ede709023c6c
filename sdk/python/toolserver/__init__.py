# Copyright 2026 The toolserver Authors
# SPDX-License-Identifier: Apache-2.0

"""The Python client of toolserver: list, execute, batch, watch, approve, render and parse."""

from toolserver.batch import Batch, BatchResult, Detached
from toolserver.client import Client, allow, deny, result, text, unread

__all__ = [
    "Batch",
    "BatchResult",
    "Client",
    "Detached",
    "allow",
    "deny",
    "result",
    "text",
    "unread",
]
