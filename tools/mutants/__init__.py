"""Do the tests notice when the code is wrong? A seeded sample of small wrong changes, each tried against the tests that
run the changed line.

    make mutants ROOMS="queueing scheduling" SEED=7 EACH=20

In: `src/fairway`, and which test runs which line (`recording`; made where it is missing or test files changed). Out: a
table of rooms, and every change that no test noticed, with file, line, before and after. Changes that change nothing
anybody could see are listed in `accepted.toml`, each with its reason.

Why not a tool that exists: mutmut and cosmic-ray run all tests for each change, or patch functions in a way that
slotted and compiled classes do not bear (decision 84).

Reading order: `changes` (what may be changed, and how), `recording` (which test runs which line), `choosing` (the
sample, and the tests of a line), `trying` (one change against its tests), `__main__`.
"""
