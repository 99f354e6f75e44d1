"""What happens on a cluster, and is it as it should be?

In: a file or directory that says what there is at the start, what is done when (manifests, a timeline, traces,
faults) and what must hold in the end. Out: a twin that plays it, its outcome, and a verdict per assertion.

Reading order: `model` (what a scenario is), `located` (fields with places), `reading` and `actionreading` (from
YAML to the model), `loading` (files and directories), `checking` (what can be known to be wrong before it
runs), `component` and `acting` (the timeline on the loop), `building` and `running` (a twin and its run),
`assertions` (the language), `repeating` (many seeds), `verdicts` (text, JSON and JUnit).
"""
