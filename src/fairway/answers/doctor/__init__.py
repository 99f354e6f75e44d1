"""What is wrong here? Symptoms, each an ordered list of checks that run by themselves on any ground.

In: a ground's moment and history. Out: per check whether the signal is there, with evidence, the command that shows it
by hand, and the fix; what a ground cannot tell is said. What each symptom is called, its commands, signals, fixes and
alerts are data: `symptoms.toml`.

Reading order: `symptoms` (the data), `checkup` (all of it together), then the checks: `waiting`, `containers`,
`capacity`, `rules`.
"""
