"""How do typed commands reach a controller, and who runs the scripts of jobs?

`client.py` is what stands on PATH under the commands' names: it tells a Unix socket what was typed and prints the
answer. `host.py` answers: it runs the commands of `commands/`, moves virtual time, and starts the scripts of jobs as
processes of this machine, whose `sleep` asks the same clock. Time goes on only when every process waits for it
(`processes.py`); a script that only sleeps, or carries `#FAIRWAY` hints, is not run at all (`behaviours.py`).

Reading order: `client`, `behaviours`, `processes`, `host`, `interactive` (srun and salloc), `folder`.
"""
