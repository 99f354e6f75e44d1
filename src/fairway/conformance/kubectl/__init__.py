"""Does the server answer kubectl as a real cluster did?

In: a recorded session (commands with their standard input, output, error and exit code). Out: which commands agree.

Reading order: `session` (what a recording is), `comparing` (when two outputs say the same), `playing` (a fresh
server, the installed kubectl, the verdict).
"""
