"""How do typed commands reach a controller, who runs the scripts of jobs, and what is left when the server ends?

`client.py` is what stands on PATH under the commands' names: it tells a Unix socket what was typed and prints the
answer. `host.py` answers: it runs the commands of `commands/`, moves virtual time, and starts the scripts of jobs as
processes of this machine, whose `sleep` asks the same clock. A script that only sleeps, or carries `#FAIRWAY` hints,
is not run at all (`slurm/behaviours.py`). `server.py` lets time go with the clock on the wall or faster, and writes
every request that changes something to `journal.py` before it is answered; a new server plays the journal again.

`rest.py` is slurmrestd's API on the same server; `restd.py` the HTTP in front of it, on loopback.

Reading order: `client`, `processes`, `connections`, `host`, `interactive` (srun and salloc), `journal`, `server`.
"""
