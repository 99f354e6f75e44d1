"""A refusal that another room worded whole: admission's and RBAC's `Status` as it goes over the wire."""

from __future__ import annotations

from typing import Any

from fairway.cluster.errors import ApiError


class Refused(ApiError):
    """Carries the body as it was made; `warnings` are sent with it."""

    def __init__(self, body: dict[str, Any], warnings: tuple[str, ...] = ()) -> None:
        super().__init__(int(body["code"]), str(body.get("reason", "")), str(body["message"]))
        self.body = body
        self.warnings = warnings

    @property
    def details(self) -> dict[str, Any]:
        return self.body.get("details") or {}

    def status(self) -> dict[str, Any]:
        return self.body
