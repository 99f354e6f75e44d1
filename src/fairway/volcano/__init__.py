"""Which pods of which gangs are bound or evicted in one session: Volcano's scheduler, without its clock.

In: facts about nodes, queues, PodGroups and pods (`facts`), a scheduler configuration (`configuration`), and a
`Feasibility`: what kube-scheduler's filters and scores say about a pod, which this package may not import. Out:
a frozen `decisions.Session`: bindings, evictions, PodGroup and Queue statuses, pod conditions, events.

A gang is all or nothing: an action works in a statement that is committed only once `minMember` of its tasks
have a place, and is taken back otherwise. Nothing is held between sessions, so gangs cannot wait for each other.

Reading order: `facts` (what is there), `configuration` (which actions and plugins), `vectors` (resources),
`state` (tasks, jobs, queues and nodes while a session runs), `statement` (do, commit, take back), `session`
(plugins by tier), `plugins`, `actions` over `choosing`, `words` (why not), `cycle` (all of it in order), and
`reading` (facts from API objects).

Source: volcano-sh/volcano pkg/scheduler, master of 2026-08.
"""
