"""Controllers whose creations pass admission, as they do at a real API server.

Defaults, priorities, tolerations and limit ranges change what a controller creates; quotas and namespaces on
their way out refuse it, and the controller is told so.
"""

from __future__ import annotations

from fairway.admission.admit import admit
from fairway.admission.verdicts import Refused
from fairway.cluster.actions import Action, Create, perform
from fairway.kube.defaults import apply_defaults
from fairway.twin.controllers import Controllers, Item


class AdmittedControllers(Controllers):
    """`Controllers` behind admission."""

    def fork(self) -> AdmittedControllers:
        twin = AdmittedControllers(self.controllers, self._given, self.name)
        state = super().fork().__dict__
        twin.__dict__.update({name: value for name, value in state.items() if name != "affected"})
        return twin

    def _do(self, item: Item, action: Action) -> bool:
        if not isinstance(action, Create):
            return super()._do(item, action)
        store = self.host.store
        answer = admit(store, apply_defaults(action.obj))
        if isinstance(answer, Refused):
            self._refused(item, answer.message)
            return False
        done = super()._do(item, Create(answer.obj))
        for charge in answer.charges if done else ():
            perform(store, charge)
        return done

    def _refused(self, item: Item, message: str) -> None:
        controller = self.controllers[item[0]]
        if controller.refused is not None:
            self._after_refusal(controller.refused(self.host.store, item[1], self.host.loop.now_us, message))
        self._retry(item)
