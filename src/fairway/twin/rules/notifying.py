"""Which Alertmanagers does the cluster have, what are they configured to, and whom do they tell?

Every Alertmanager object hears of all alerts. Its configuration is what the Prometheus Operator makes of its Secret and
of the AlertmanagerConfigs that it selects; one that cannot be read is said as an Event, and the last one goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fairway.errors import InvalidInput
from fairway.kube.objects import Key, key_of, meta_of, name_of
from fairway.kube.secrets import texts_of
from fairway.telemetry.alertmanager.dispatching import Dispatcher, Log, Notification
from fairway.telemetry.alertmanager.merging import ALERTMANAGER, CONFIG, Merged, merged
from fairway.telemetry.rules.alerts import Alert
from fairway.twin.components import Host
from fairway.twin.kubeevents import WARNING

_NAME: Final = "prometheus-operator"
_INVALID: Final = "InvalidConfiguration"
_MOST_SAID: Final = 1_000
# Alertmanagers of one namespace that are told of alerts; those beyond them are said to be too many.
MOST: Final = 3


class Notifying:
    """Alertmanagers by namespace and name. `log`: what each was told before."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.is_stale = True
        self.log: Log = {}
        self._dispatchers: dict[str, Dispatcher] = {}
        self._said: dict[Key, str] = {}

    @property
    def is_needed(self) -> bool:
        return any(dispatcher.active() for dispatcher in self._dispatchers.values())

    @property
    def is_waiting(self) -> bool:
        """Whether an alert is in a group that has not spoken since."""
        return any(dispatcher.is_waiting for dispatcher in self._dispatchers.values())

    def go_on(
        self, fired: Sequence[Alert], earlier: Sequence[Alert], at_ms: int
    ) -> dict[str, list[Notification]]:
        """What each tells until then. `earlier`: what fired before and still does, in the order of time: one with a
        new configuration hears of it, too."""
        if self.is_stale:
            self._configure(earlier, at_ms)
        found = {}
        for name, dispatcher in self._dispatchers.items():
            dispatcher.hear(fired)
            if notes := dispatcher.go_on(at_ms):
                found[name] = notes
        return found

    def forget(self, before_ms: int) -> None:
        for dispatcher in self._dispatchers.values():
            dispatcher.forget(before_ms)

    def _configure(self, earlier: Sequence[Alert], at_ms: int) -> None:
        self.is_stale = False
        store = self._host.store
        configs = list(store.objects(CONFIG))
        namespaces = {name_of(obj): obj for obj in store.objects("Namespace")}
        said: dict[Key, str] = {}
        before, self._dispatchers = self._dispatchers, {}
        counts: dict[str, int] = {}
        for obj in store.objects(ALERTMANAGER):
            key = key_of(obj)
            name = f"{key.namespace}/{key.name}"
            counts[key.namespace] = counts.get(key.namespace, 0) + 1
            if counts[key.namespace] > MOST:
                said[key] = f"not told of alerts: its namespace has {MOST} before it"
                continue
            found = merged(obj, configs, namespaces, self._secret)
            said.update({key_of(one): why for one, why in found.rejected})
            dispatcher, why = self._dispatcher(name, found, before.get(name), earlier, at_ms)
            if why:
                said[key] = why
            if dispatcher is not None:
                self._dispatchers[name] = dispatcher
        for key, why in said.items():
            if self._said.get(key) != why:
                self._say(key, why[:_MOST_SAID])
        self._said = said

    def _dispatcher(
        self, name: str, found: Merged, before: Dispatcher | None, earlier: Iterable[Alert], at_ms: int
    ) -> tuple[Dispatcher | None, str]:
        """A new one for a configuration that is new; what is wrong with it."""
        if found.fault:
            return before, found.fault
        try:
            configuration = found.configuration()
        except InvalidInput as wrong:
            return before, str(wrong)
        if before is not None and before.configuration == configuration:
            return before, ""
        dispatcher = Dispatcher(configuration, self.log, name)
        dispatcher.hear(earlier, at_ms)
        return dispatcher, ""

    def _secret(self, namespace: str, name: str) -> Mapping[str, str] | None:
        obj = self._host.store.get(Key("Secret", namespace, name))
        return None if obj is None else texts_of(obj)

    def _say(self, key: Key, message: str) -> None:
        obj = self._host.store.get(key)
        if obj is not None:
            uid = str(meta_of(obj).get("uid") or "")
            self._host.events.emit(self._host.loop.now_us, key, uid, WARNING, _INVALID, message, _NAME)
