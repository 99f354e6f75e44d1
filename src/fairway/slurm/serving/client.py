"""What stands on PATH as sbatch, squeue …, and as `sleep`, `hostname` and `nvidia-smi` within jobs.

Of the standard library only. Speaks JSON lines with the socket that FAIRWAY_SOCKET names, or beside this file.
"""

import errno
import json
import os
import signal
import socket
import sys
import threading


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
        if "run" in told and name in ("srun", "salloc"):
            _send(stream, _run(told["run"], told.get("until", {})))
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


def _run(tasks, until) -> dict[str, object]:  # type: ignore[no-untyped-def]
    """Start every task at once and wait for all; statuses as wait gives them.

    until: `bad` ends the others as soon as one fails, `wait` so many seconds after the first has ended.
    """
    fed = [task for task in tasks if task["stdin"]]
    started = []
    feeds = []
    threads = []
    for task in tasks:
        reading = writing = feeding = None
        if task["label"]:
            reading, writing = os.pipe()
        if task["stdin"] and len(fed) > 1:
            feeding, fill = os.pipe()
            feeds.append(fill)
        sys.stdout.flush()
        child = os.fork()
        if not child:
            for fill in feeds:
                os.close(fill)
            _become(task, writing, feeding)
        for descriptor in (writing, feeding):
            if descriptor is not None:
                os.close(descriptor)
        started.append(child)
        if reading is not None:
            threads.append(threading.Thread(target=_label, args=(reading, task["label"])))
    if feeds:
        threading.Thread(target=_feed, args=(feeds,), daemon=True).start()
    for thread in threads:
        thread.start()
    told = _wait(started, until)
    for thread in threads:
        thread.join()
    return told


def _label(reading, label) -> None:  # type: ignore[no-untyped-def]
    with open(reading, "rb") as output:
        for line in output:
            sys.stdout.buffer.write(label.encode() + line)
            sys.stdout.flush()


def _feed(feeds) -> None:  # type: ignore[no-untyped-def]
    """What comes in goes to every task."""
    while feeds:
        data = os.read(0, 65536)
        for fill in list(feeds):
            try:
                left = data
                while left:
                    left = left[os.write(fill, left) :]
                if not data:
                    os.close(fill)
                    feeds.remove(fill)
            except OSError:
                os.close(fill)
                feeds.remove(fill)


def _wait(children, until) -> dict[str, object]:  # type: ignore[no-untyped-def]
    statuses: list[int | None] = [None] * len(children)
    cut, timer = "", 0
    while None in statuses:
        ended, status = os.waitpid(-1, 0)
        late = ended == timer
        if late:
            timer = -1
        elif ended in children:
            statuses[children.index(ended)] = status
        running = [child for at, child in enumerate(children) if statuses[at] is None]
        bad = until.get("bad") and any(statuses)
        if running and not cut and (bad or late):
            cut = "bad" if bad else "wait"
            for child in running:
                os.killpg(child, signal.SIGTERM if bad else signal.SIGKILL)
        if running and until.get("wait") and not timer:
            timer = _timer(until["wait"])
    if timer > 0:
        os.kill(timer, signal.SIGKILL)
        os.waitpid(timer, 0)
    return {"ended": statuses, "cut": cut}


def _timer(seconds) -> int:  # type: ignore[no-untyped-def]
    """A process that ends after so many seconds of the cluster's time."""
    child = os.fork()
    if not child:
        name = os.path.join(os.path.dirname(os.path.realpath(sys.argv[0])), "jobs", "sleep")
        try:
            os.execv(name, [name, str(seconds)])
        except OSError:
            os._exit(1)
    return child


def _become(task, writing, feeding) -> None:  # type: ignore[no-untyped-def]
    code = 2
    try:
        if task.get("group"):
            os.setpgid(0, 0)
        if writing is not None:
            os.dup2(writing, 1)
            os.dup2(writing, 2)
        for descriptor, path in enumerate(task.get("files", ()), start=1):
            if path:
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666), descriptor)
        if feeding is not None:
            os.dup2(feeding, 0)
        elif not task["stdin"]:
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        if task.get("cwd"):
            _enter(task)
        environment = ({} if task.get("bare") else dict(os.environ)) | task["environment"]
        os.environ.clear()
        os.environ.update(environment)
        if "PATH" not in environment and "/" not in task["arguments"][0]:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        os.execvpe(task["arguments"][0], task["arguments"], environment)
    except OSError as failed:
        code = failed.errno or 2
        if task["node"]:
            said = f"slurmstepd-{task['node']}: error: execve(): {task['arguments'][0]}: {failed.strerror}"
        else:  # salloc's command, on the machine where it was typed
            said, code = f'salloc: error: _fork_command: Unable to find command "{task["arguments"][0]}"', 1
        os.write(2, f"{said}\n".encode())
    os._exit(code)


def _enter(task) -> None:  # type: ignore[no-untyped-def]
    """The folder that was asked for, else /tmp: slurmstepd says so twice."""
    try:
        os.chdir(task["cwd"])
    except OSError as failed:
        said = f"couldn't chdir to `{task['shown']}': {failed.strerror}: going to /tmp instead"
        os.write(2, f"slurmstepd-{task['node']}: error: {said}\n".encode() * 2)
        os.chdir("/tmp")


if __name__ == "__main__":
    try:
        status = main()
    except (OSError, KeyboardInterrupt):
        status = 1
    sys.stdout.flush()
    os._exit(status)
