"""What stands on PATH as sbatch, squeue …, and as `sleep` and `hostname` within jobs. Standard library only.

Speaks JSON lines with the socket named in the environment variable FAIRWAY_SOCKET, or beside this file.
"""

import json
import os
import socket
import sys


def main() -> int:
    name = os.path.basename(sys.argv[0])
    if name == "hostname" and len(sys.argv) < 2:
        host = os.environ.get("FAIRWAY_HOSTNAME") or os.environ.get("SLURMD_NODENAME") or socket.gethostname()
        sys.stdout.write(f"{host}\n")
        return 0
    where = os.environ.get("FAIRWAY_SOCKET") or os.path.join(
        os.path.dirname(os.path.realpath(sys.argv[0])), "socket"
    )
    connection = socket.socket(socket.AF_UNIX)
    try:  # by the folder's descriptor: an address has at most 108 bytes
        folder = os.open(os.path.dirname(where) or ".", os.O_PATH)
        connection.connect(f"/proc/self/fd/{folder}/{os.path.basename(where)}")
        os.close(folder)
    except OSError:
        sys.stderr.write(f"{name}: error: Unable to contact slurm controller (connect failure)\n")
        return 1
    stream = connection.makefile("rwb")
    asked = {
        "name": name,
        "arguments": sys.argv[1:],
        "environment": dict(os.environ),
        "cwd": _here(),
    }
    _send(stream, asked)
    code = None
    for line in stream:
        told = json.loads(line)
        sys.stdout.write(told.get("out", ""))
        sys.stdout.flush()
        sys.stderr.write(told.get("err", ""))
        sys.stderr.flush()
        if told.get("need") == "stdin":
            _send(stream, {"stdin": sys.stdin.read()})
        if "run" in told:
            _send(stream, {"ended": _run(told["run"])})
        if "exit" in told:
            code = told["exit"]
            break
    if code is None:
        if name != "sleep":
            sys.stderr.write(f"{name}: error: Zero Bytes were transmitted or received\n")
        code = 1
    return code


def _here() -> str:
    try:
        return os.environ["PWD"] if os.path.samefile(os.environ.get("PWD", ""), ".") else os.getcwd()
    except OSError:
        return os.getcwd() if os.path.exists(".") else "/"


def _send(stream, what) -> None:  # type: ignore[no-untyped-def]
    stream.write(json.dumps(what).encode("utf-8", "surrogatepass") + b"\n")
    stream.flush()


def _run(tasks) -> list[int]:  # type: ignore[no-untyped-def]
    """Start every task at once and wait for all; statuses as wait gives them."""
    started = []
    for task in tasks:
        reading = writing = None
        if task["label"]:
            reading, writing = os.pipe()
        sys.stdout.flush()
        child = os.fork()
        if not child:
            _become(task, writing)
        if writing is not None:
            os.close(writing)
        started.append((child, reading, task["label"]))
    statuses = []
    for child, reading, label in started:
        if reading is not None:
            with open(reading, "rb") as output:
                for line in output:
                    sys.stdout.buffer.write(label.encode() + line)
            sys.stdout.flush()
        statuses.append(os.waitpid(child, 0)[1])
    return statuses


def _become(task, writing) -> None:  # type: ignore[no-untyped-def]
    try:
        if writing is not None:
            os.dup2(writing, 1)
            os.dup2(writing, 2)
        for descriptor, path in enumerate(task.get("files", ()), start=1):
            if path:
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666), descriptor)
        if not task["stdin"]:
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        environment = dict(os.environ) | task["environment"]
        os.environ.clear()
        os.environ.update(environment)
        os.execvpe(task["arguments"][0], task["arguments"], environment)
    except OSError as failed:
        os.write(
            2,
            f"slurmstepd-{task['node']}: error: execve(): {task['arguments'][0]}: {failed.strerror}\n".encode(),
        )
    os._exit(2)


if __name__ == "__main__":
    try:
        status = main()
    except (OSError, KeyboardInterrupt):
        status = 1
    sys.stdout.flush()
    os._exit(status)
