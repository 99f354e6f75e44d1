"""CEL outside of admission: what an expression is made of, what it gives, and what it may cost.

In: an expression over a device. Out: a program with its worst cost, or cel-go's complaint. Google's C++ interpreter
parses and checks; its checked tree is evaluated here, because only so maps have defaults, errors have cel-go's words
and cost can be counted. Kubernetes' function libraries (`functions/`) serve this and `admission.cel`.

Reading order: `brackets` (text), `wording` (complaints), `tree` (what the checker hands back), `interpreting` (trees to
values), `operators`, `costs` (the worst a tree may cost), `twovars` (macros the parser lacks), `devices` (the
expressions that select devices).
"""
