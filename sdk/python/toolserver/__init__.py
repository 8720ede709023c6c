# Copyright 2026 The toolserver Authors
# SPDX-License-Identifier: Apache-2.0

"""The Python client of toolserver: list, execute, batch, watch, approve, render, parse, serve."""

from toolserver.agents import Agent, Cancelled, Report, Task
from toolserver.batch import Batch, BatchResult, Detached
from toolserver.client import Client, allow, answer, deny, result, text, unread

__all__ = [
    "Agent",
    "Batch",
    "BatchResult",
    "Cancelled",
    "Client",
    "Detached",
    "Report",
    "Task",
    "allow",
    "answer",
    "deny",
    "result",
    "text",
    "unread",
]
