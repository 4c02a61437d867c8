"""Models behind an endpoint that speaks the OpenAI protocol, hosted or a server of one's own."""

from __future__ import annotations

from chronocore.engines.openai.endpoint import endpoint_address, probe_endpoint
from chronocore.engines.openai.engine import OMITTABLE, OpenAIEngine

__all__ = ["OMITTABLE", "OpenAIEngine", "endpoint_address", "probe_endpoint"]
