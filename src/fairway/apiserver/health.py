"""Is the server well? `/healthz`, `/livez`, `/readyz`, each check by itself (`/readyz/journal`), and what they say.

What kube-apiserver calls `etcd` is the journal here; both names are known.

Source: apiserver pkg/server/healthz/healthz.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from fairway.apiserver.journal import MAX_BACKLOG
from fairway.apiserver.statuses import method_not_allowed, page_not_found
from fairway.apiserver.wire.messages import Request, Response

if TYPE_CHECKING:
    from fairway.apiserver.asking import Api

PAGES = ("/healthz", "/livez", "/readyz")
_TEXT = "text/plain; charset=utf-8"
_NO_SNIFF = (("X-Content-Type-Options", "nosniff"),)
Check = Callable[[], str]
"""What is wrong; empty when nothing is."""
_COMPONENT = "component/"


class Health:
    """The checks, in the order they are told."""

    def __init__(self, api: Api) -> None:
        self._api = api
        always: dict[str, Check] = {
            "ping": _well,
            "log": _well,
            "etcd": self._journal,
            "journal": self._journal,
        }
        ready: dict[str, Check] = {
            **always,
            "informer-sync": self._components,
            "components": self._components,
        }
        self._checks = {"healthz": always, "livez": always, "readyz": ready}

    def answer(self, request: Request) -> Response:
        """Raises: StatusError (404, 405)."""
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed(None)
        page, _, name = request.path.strip("/").partition("/")
        checks = self._checks_of(page)
        if not name:
            return self._all(page, checks, request)
        if name not in checks:
            raise page_not_found()
        wrong = checks[name]()
        if wrong:
            return Response(500, f"internal server error: {wrong}\n".encode(), _TEXT, _NO_SNIFF)
        return Response(200, b"ok", _TEXT)

    def results(self) -> list[tuple[str, str, bool]]:
        """Every check of every page: (name, page, whether it is well)."""
        return [
            (name, page, not check())
            for page in self._checks
            for name, check in self._checks_of(page).items()
        ]

    def _checks_of(self, page: str) -> dict[str, Check]:
        """Readiness asks every component, too, once they are there."""
        twin = self._api.cluster.twin
        checks = self._checks[page]
        if page != "readyz" or twin is None or self._components():
            return checks
        return {
            **checks,
            **{f"{_COMPONENT}{c.name}": partial(self._component, c.name) for c in twin.components},
        }

    def _journal(self) -> str:
        backlog = self._api.journal.backlog
        return f"{backlog} changes wait for the disk" if backlog > MAX_BACKLOG else ""

    def _components(self) -> str:
        return "" if self._api.cluster.ready.is_set() else "components are being loaded"

    def _component(self, name: str) -> str:
        """It fails at work that no single object is to blame for. What one object breaks makes nobody unready."""
        contained = self._api.cluster.containment
        return f"{name} fails" if contained is not None and contained.is_stopped(name) else ""

    def _left_out(self, check: str) -> str:
        """Of a component that is well, how many objects it does without. Whose they are, not everybody may read."""
        contained = self._api.cluster.containment
        if contained is None or not check.startswith(_COMPONENT):
            return ""
        count = contained.left_out(check.removeprefix(_COMPONENT))
        return f": {count} object{'s' if count != 1 else ''} left out" if count else ""

    def _all(self, page: str, checks: dict[str, Check], request: Request) -> Response:
        """All of a page's checks but those excluded; in full where asked, and where something is wrong."""
        excluded = set(request.query.get("exclude", ()))
        lines: list[str] = []
        has_failed = False
        for name, check in checks.items():
            if name in excluded:
                excluded.discard(name)
                lines.append(f"[+]{name} excluded: ok")
            elif check():
                has_failed = True
                lines.append(f"[-]{name} failed: reason withheld")
            else:
                lines.append(f"[+]{name} ok{self._left_out(name)}")
        if excluded:
            named = ",".join(f'"{name}"' for name in sorted(excluded))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {named}")
        if not has_failed and "verbose" not in request.query:
            return Response(200, b"ok", _TEXT, _NO_SNIFF)
        lines.append(f"{page} check {'failed' if has_failed else 'passed'}")
        return Response(
            500 if has_failed else 200, "".join(f"{line}\n" for line in lines).encode(), _TEXT, _NO_SNIFF
        )


def _well() -> str:
    return ""
