"""What does a Secret hold?"""

from __future__ import annotations

import base64

from fairway.kube.objects import Obj


def texts_of(secret: Obj) -> dict[str, str]:
    """Its values as text; what is no base64, or no text, is empty."""
    found = {name: str(value) for name, value in (secret.get("stringData") or {}).items()}
    for name, value in (secret.get("data") or {}).items():
        try:
            found[name] = base64.b64decode(str(value or "")).decode()
        except ValueError:
            found[name] = ""
    return found
