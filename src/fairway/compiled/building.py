"""Translates the hot modules to C with mypyc and puts them where `loading` looks for them.

Needs what development needs (mypy, setuptools) and a C compiler with Python's headers. A build lies in a directory of
its own, and takes the place of the one before when the manifest that names it is renamed: one that fails, is killed,
or is made by two processes at once leaves a whole one. The one before stays, for processes that still load from it.

What mypyc asks of a module: honest types at run time (a parameter that says `str` refuses an int), no
`__new__` of its classes without their arguments, no `__dict__` or `__slots__` of their instances, no patching of
its globals, no subclass of its classes outside.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from fairway.compiled.loading import MANIFEST, read_manifest, sources_of
from fairway.errors import BugError, WorldError

# What the lives of a pod, of a Workload, of a Slurm job, of a fleet and of a write to the API spend their time in.
# Left out on purpose: what NumPy or Numba does anyway; classes that modules outside inherit from
# (`cluster/errors.py`), which mypyc does not allow; frozen dataclasses that travel to other processes
# (`twin/distributions.py`, and with it `twin/provisioner/cloud.py` and `provisioning/karpenter/instancetypes.py`),
# which could not be unpickled; `workloads/registry.py`, whose constants mypyc cannot type;
# `queueing/integrations/integration.py` and the kinds of jobs that inherit from it, whose constants are read through
# the class: mypyc keeps those in instances; `apiserver/asking.py`, whose dataclasses name types that are imported for
# type checkers alone.
MODULES: tuple[str, ...] = (
    "kube/conditions.py",
    "kube/defaults.py",
    "kube/devicedefaults.py",
    "kube/kinds.py",
    "kube/labels.py",
    "kube/names.py",
    "kube/objects.py",
    "kube/poddefaults.py",
    "kube/podrequests.py",
    "kube/quantity.py",
    "kube/resourceclaims.py",
    "kube/resources.py",
    "kube/taints.py",
    "kube/schema/decoding.py",
    "kube/schema/node.py",
    "kube/timestamps.py",
    # The rules of pods and of what they consist of; other kinds are created too seldom to matter.
    "kube/validation/kinds/claims.py",
    "kube/validation/kinds/containers.py",
    "kube/validation/kinds/env.py",
    "kube/validation/kinds/metadata.py",
    "kube/validation/kinds/persistentvolumes.py",
    "kube/validation/kinds/pods.py",
    "kube/validation/kinds/podupdates.py",
    "kube/validation/kinds/policies.py",
    "kube/validation/kinds/probes.py",
    "kube/validation/kinds/projections.py",
    "kube/validation/kinds/resources.py",
    "kube/validation/kinds/sameness.py",
    "kube/validation/kinds/scheduling.py",
    "kube/validation/kinds/security.py",
    "kube/validation/kinds/selectors.py",
    "kube/validation/kinds/services.py",
    "kube/validation/kinds/texts.py",
    "kube/validation/kinds/volumes.py",
    "kube/validation/validating.py",
    "cluster/*.py",
    "admission/chain.py",
    "admission/door.py",
    "admission/intree.py",
    "admission/limitranger.py",
    "admission/namespace.py",
    "admission/priority.py",
    "admission/quota.py",
    "admission/podtolerations.py",
    "admission/runtimeclass.py",
    "admission/serviceaccount.py",
    "workloads/adoption.py",
    "workloads/claims.py",
    "workloads/concerned.py",
    "workloads/controller.py",
    "workloads/namespaces.py",
    "workloads/podchanges.py",
    "workloads/pods.py",
    "workloads/podtemplate.py",
    "workloads/replicaset.py",
    "workloads/resourceclaims.py",
    "workloads/resourcequota.py",
    "workloads/deployment/*.py",
    "workloads/job/*.py",
    "workloads/volcanojob/controllers.py",
    "queueing/cycle/*.py",
    "queueing/facts/*.py",
    "queueing/flavors/*.py",
    "queueing/outcomes/*.py",
    "queueing/quota/*.py",
    "queueing/control/*.py",
    "queueing/integrations/construct.py",
    "queueing/integrations/equivalence.py",
    "queueing/integrations/ownership.py",
    "queueing/integrations/podsetinfo.py",
    "queueing/integrations/podsready.py",
    "queueing/integrations/priorities.py",
    "queueing/integrations/reconcile.py",
    "queueing/integrations/rolehash.py",
    "queueing/integrations/slices.py",
    "queueing/integrations/topologyrequest.py",
    "queueing/preemption/*.py",
    "queueing/tas/*.py",
    "scheduling/cycle.py",
    "scheduling/devices/*.py",
    "scheduling/diagnosis.py",
    "scheduling/dynamicresources.py",
    "scheduling/evictions.py",
    "scheduling/filters.py",
    "scheduling/nodelocal.py",
    "scheduling/plainscores.py",
    "scheduling/preemption.py",
    "scheduling/queue.py",
    "scheduling/ranking.py",
    "scheduling/requeue.py",
    "scheduling/resourcescores.py",
    "scheduling/verdict.py",
    "provisioning/karpenter/*.py",
    "provisioning/karpenter/disruption/*.py",
    "twin/behaviour.py",
    "twin/components.py",
    "twin/controllers.py",
    "twin/devices/reserving.py",
    "twin/eventlog.py",
    "twin/heartbeats.py",
    "twin/kubeevents.py",
    "twin/loop.py",
    "twin/nodelifecycle.py",
    "twin/operators.py",
    "twin/ownergc.py",
    "twin/owners.py",
    "twin/podchanges.py",
    "twin/podgc.py",
    "twin/scheduler.py",
    "twin/streams.py",
    "twin/tainteviction.py",
    "twin/kubelet/*.py",
    "twin/kueue/*.py",
    "twin/provisioner/*.py",
    "recorder/nodes.py",
    "recorder/pods.py",
    "recorder/queueledger.py",
    "recorder/recorder.py",
    "recorder/rows.py",
    "recorder/utilization.py",
    "recorder/workloads.py",
    "traces/arrival.py",
    "traces/component.py",
    "twin/volcano/scheduler.py",
    "autoscaling/hpa/[dlmqrs]*.py",
    "autoscaling/hpa/podgroups.py",
    "autoscaling/load/curves.py",
    "autoscaling/scales.py",
    "twin/autoscaling/horizontal.py",
    "twin/autoscaling/journal.py",
    "twin/autoscaling/podindex.py",
    "apiserver/canonical.py",
    "apiserver/converting.py",
    "apiserver/decoding.py",
    "apiserver/door.py",
    "apiserver/events.py",
    "apiserver/handling.py",
    "apiserver/ownership.py",
    "apiserver/patching/fieldset.py",
    "apiserver/patching/managed.py",
    "apiserver/patching/tracking.py",
    "apiserver/patching/walk.py",
    "apiserver/protobuf/reading.py",
    "apiserver/representing.py",
    "apiserver/requests.py",
    "apiserver/resources.py",
    "apiserver/subresources/binding.py",
    "apiserver/subresources/dispatch.py",
    "apiserver/verbs/writing.py",
    "answers/forecasting/boards.py",
    "answers/forecasting/quick.py",
    "answers/forecasting/quotas.py",
    # What a Slurm cluster decides; the texts of its commands are read and written interpreted.
    "slurm/ahead.py",
    "slurm/backfill.py",
    "slurm/clockwork.py",
    "slurm/cluster.py",
    "slurm/cyclecounts.py",
    "slurm/dependencies.py",
    "slurm/limits.py",
    "slurm/mainpass.py",
    "slurm/preemption.py",
    "slurm/priority.py",
    "slurm/queueing.py",
    "slurm/reservations.py",
    "slurm/selecting.py",
    "slurm/sharing.py",
    "slurm/submitting.py",
    "slurm/lifecycle.py",
    "slurm/controller.py",
    "slurm/steering.py",
    "slurm/administration.py",
    "slurm/placing/*.py",
    "slurm/model/*.py",
    "slurm/conf/configuration.py",
    "slurm/features.py",
    # Inherits from a compiled class.
    "conformance/dra/playing.py",
)
# Modules of the folders above that stay interpreted, and why.
LEFT_OUT: dict[str, str] = {
    "cluster/errors.py": "exceptions: other rooms inherit from them",
    "provisioning/karpenter/instancetypes.py": "its objects travel between processes: pickle needs their slots",
    "twin/provisioner/cloud.py": "its objects travel between processes: pickle needs their slots",
}
# Of what the compiler said, when it failed.
_LINES_SHOWN = 20


def build(package: Path, patterns: Iterable[str], target: Path) -> int:
    """Compile the modules of a package into `target`; returns how many there are.

    Raises: WorldError where something it needs is missing, BugError where the sources do not compile.
    """
    missing = what_is_missing()
    if missing is not None:
        raise WorldError(missing)
    sources = sources_of(package)
    files = [f"{package.name}/{path}" for path in compiled_files(package, patterns)]
    with TemporaryDirectory(prefix="fairway-compiled-") as scratch:
        made = _compile(package, files, Path(scratch))
        _install(made, sources, target)
    return len(files)


def what_is_missing() -> str | None:
    """What has to be installed before anything can be compiled, or None."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"no C compiler: expected {compiler} on the PATH (Debian: apt-get install gcc)"
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        return "Python.h is missing (Debian: apt-get install python3-dev)"
    for name in ("mypyc", "setuptools"):
        if find_spec(name) is None:
            return f"{name} is missing: pip install mypy setuptools"
    return None


def compiled_files(package: Path, patterns: Iterable[str]) -> Iterator[str]:
    """The modules that patterns name, as paths within the package, without those that stay interpreted."""
    for pattern in patterns:
        for file in sorted(package.glob(pattern)):
            path = file.relative_to(package).as_posix()
            if file.name != "__init__.py" and path not in LEFT_OUT:
                yield path


def _compile(package: Path, files: list[str], scratch: Path) -> Path:
    """Extension modules of the files and of what the package has in C, laid out as the package is; returns the
    directory they are under.

    All are one group: calls within a group go straight to the function, calls between groups through a table
    (measured: 15 % slower). Each has a C file of its own, so that all cores compile.
    """
    from mypyc.build import mypycify
    from setuptools import Distribution, Extension

    made = scratch / "made"
    with _inside(package.parent, scratch / "log"):
        extensions = mypycify(
            [
                "--config-file=",
                "--ignore-missing-imports",
                "--follow-imports=silent",
                f"--cache-dir={scratch / 'mypy'}",
                *files,
            ],
            opt_level="1",
            debug_level="0",
            multi_file=True,
            group_name=package.name,
            target_dir=str(scratch / "c"),
        )
        for source in sorted(package.rglob("*.c")):
            path = source.relative_to(package.parent)
            extensions.append(Extension(".".join(path.with_suffix("").parts), [str(path)]))
        command: Any = Distribution({"ext_modules": extensions}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = str(made), str(scratch / "objects")
        command.ensure_finalized()
        build_extensions = command.build_extensions
        command.build_extensions = lambda: _on_all_cores(command, build_extensions)
        command.run()
    return made


def _on_all_cores(command: Any, build_extensions: Callable[[], None]) -> None:
    """`build_extensions`, the C files compiled side by side first: setuptools takes one after the other."""
    compiler = command.compiler
    with ThreadPoolExecutor(os.cpu_count()) as cores:
        for extension in command.extensions:

            def compiled(source: str, of: Any = extension) -> list[str]:
                return compiler.compile(  # type: ignore[no-any-return]
                    [source],
                    output_dir=command.build_temp,
                    include_dirs=of.include_dirs,
                    extra_postargs=of.extra_compile_args,
                )

            objects = list(cores.map(compiled, extension.sources))
            extension.extra_objects = [name for names in objects for name in names]
            extension.sources = []
    build_extensions()


def _install(made: Path, sources: dict[str, list[Any]], target: Path) -> None:
    """Put a finished build in the place of the one before."""
    import fcntl
    import json

    target.mkdir(parents=True, exist_ok=True)
    with (target / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = {entry for entry in target.iterdir() if entry.is_dir()}
        serving = read_manifest(target)
        fresh = Path(mkdtemp(prefix="build-", dir=target))
        fresh.chmod(0o755)
        files = sorted(made.rglob("*" + sysconfig.get_config_var("EXT_SUFFIX")))
        names = [file.relative_to(made).as_posix() for file in files]
        shutil.copytree(made, fresh, dirs_exist_ok=True)
        modules = {name.partition(".")[0].replace("/", "."): f"{fresh.name}/{name}" for name in names}
        manifest = {"directory": fresh.name, "modules": modules, "sources": sources}
        pending = fresh / MANIFEST
        pending.write_text(json.dumps(manifest), encoding="utf-8")
        pending.replace(target / MANIFEST)
        for entry in sorted(before):
            if serving is None or entry.name != serving["directory"]:
                shutil.rmtree(entry, ignore_errors=True)


@contextmanager
def _inside(directory: Path, log: Path) -> Iterator[None]:
    """mypyc names modules by their paths from here; what it and the compiler say goes into the log.

    Raises: BugError, with the end of the log, for whatever went wrong.
    """
    _flush()
    before, spoken = Path.cwd(), (os.dup(1), os.dup(2))
    os.chdir(directory)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    except (Exception, SystemExit) as wrong:
        _flush()
        said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        # Warnings come by the hundred, and after the errors.
        errors = [line for line in said if ": error: " in line]
        end = "\n".join((errors or said)[-_LINES_SHOWN:])
        raise BugError(f"compiling failed: {wrong}\n{end}") from wrong
    finally:
        _flush()
        for number, original in zip((1, 2), spoken, strict=True):
            os.dup2(original, number)
            os.close(original)
        os.chdir(before)


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
