"""What does this API server speak? OpenAPI v2 and v3 documents, as bytes, built when first asked for.

    documents = Documents(resources)              `apiserver.resources.Resources`; nothing is built yet
    documents.v2(accept="") -> Document           body of /openapi/v2; protobuf where `accept` asks for it
    documents.index() -> Document                 body of /openapi/v3
    documents.v3(path) -> Document | None         path such as `api/v1` or `apis/apps/v1`
    Document(body: bytes, etag: str, media_type: str)

It follows `resources.generation` by itself. Reading order: `operations` (what is asked and answered), `schemas`,
`versiontwo`, `versionthree`, `protobuf`, `documents`.
"""

from __future__ import annotations

from fairway.apiserver.openapi.documents import Document, Documents

__all__ = ["Document", "Documents"]
