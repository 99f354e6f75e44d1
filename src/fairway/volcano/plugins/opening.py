"""The plugins of a session, made in the order of the configuration.

Source: volcano-sh/volcano pkg/scheduler/framework/framework.go OpenSession.
"""

from __future__ import annotations

from fairway.volcano.configuration import PluginOption
from fairway.volcano.plugins.drf import Drf
from fairway.volcano.plugins.gang import Gang
from fairway.volcano.plugins.nodescores import Binpack, NodeOrder
from fairway.volcano.plugins.overcommit import Overcommit
from fairway.volcano.plugins.priority import Conformance, Priority
from fairway.volcano.plugins.proportion import Proportion
from fairway.volcano.session import Plugin, Session


def open_session(session: Session) -> None:
    """Make the plugins and let them answer."""
    tiers = [
        [(option, plugin) for option in tier if (plugin := _made(option, session)) is not None]
        for tier in session.configuration.tiers
    ]
    session.register(tiers)


def _made(option: PluginOption, session: Session) -> Plugin | None:
    world = session.world
    if option.name == "gang":
        return Gang()
    if option.name == "priority":
        return Priority()
    if option.name == "conformance":
        return Conformance()
    if option.name == "drf":
        return Drf(world)
    if option.name == "proportion":
        return Proportion(session)
    if option.name == "overcommit":
        return Overcommit(session, option)
    if option.name == "binpack":
        return Binpack(world, option)
    if option.name == "nodeorder":
        return NodeOrder(world, option)
    # predicates: asked for directly, see `actions.choosing`.
    return None
