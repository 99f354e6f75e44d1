"""What does a first scenario of this kind look like?

In: a few answers (nodes and a GPU model, or a cloud's region, or a dump of a cluster; teams). Out: the files of a
scenario that runs as it is, as text by name.

Reading order: `answers` (what is asked), `files` (the scenario and its manifests), `dumped` (a dump's objects without
what a server wrote into them).
"""
