"""Which ground is at this path? It is told by what is there, never by what it is called."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fairway.errors import FieldProblem, InvalidInput, UserError

if TYPE_CHECKING:
    from fairway.ground.ground import Ground
    from fairway.kube.manifest import Manifest

_CONFIG = "Config"


def open_ground(
    path: Path, *, lenient: bool = False, kueue_config: Path | None = None, seed: int | None = None
) -> Ground:
    """The ground at a path. `lenient`: a scenario's objects that will not do are left out (of anything else they
    always are, and notes say so). `kueue_config`: how Kueue is configured, where a dump does not tell. `seed`: of a
    scenario, instead of its own.

    Raises: InvalidInput, UserError.
    """
    path = path.expanduser()
    if not path.exists() and not str(path).startswith("/dev/"):
        expected = (
            "no such file or directory: expected a scenario, a run directory, a dump, a folder with a slurm.conf, "
            "the data folder of fairway up, or a kubeconfig"
        )
        raise InvalidInput((FieldProblem(str(path), 0, "", "", expected),))
    found = _opened(path, lenient, kueue_config, seed)
    if seed is not None and found.kind != "scenario":
        raise UserError(
            f"--seed {seed}: {path} is a {found.kind}, which is over or stands; a seed is for scenarios"
        )
    if kueue_config is not None and found.kind not in ("dump", "cluster"):
        raise UserError("--config goes with a dump; a scenario says it under spec.kueue.configuration")
    return found


def _opened(path: Path, lenient: bool, kueue_config: Path | None, seed: int | None) -> Ground:
    # Imported where they are needed: each brings its world along.
    from fairway.results.rundir import SUMMARY

    directory = path.parent if path.name == SUMMARY else path
    if (directory / SUMMARY).is_file():
        from fairway.ground.simulated import RunGround

        return RunGround(directory)
    if path.is_dir():
        from fairway.ground.served import ServedGround, is_data_folder

        if is_data_folder(path):
            return ServedGround(path)
    if (path / "slurm.conf").is_file() or is_served_slurm(path):
        raise UserError(
            f"{path} is a Slurm site: this question is not answered for one (docs/slurm-migration.md)"
        )
    from fairway.scenario.loading import holds_scenario

    if not holds_scenario(path):
        from fairway.kube.manifest import read_path

        manifests = read_path(path, lenient=True)
        found = _of_manifests(path, manifests, kueue_config)
        if found is not None:
            return found
    from fairway.ground.simulated import ScenarioGround

    return ScenarioGround(path, lenient=lenient, seed=seed)


def is_served_slurm(folder: Path) -> bool:
    """The data folder of `fairway slurm up`."""
    return (folder / "journal").is_file() and (folder / "bin" / "scontrol").exists()


def _of_manifests(path: Path, manifests: list[Manifest], kueue_config: Path | None) -> Ground | None:
    """A kubeconfig's cluster, or a dump; None for manifests that are yet to be applied."""
    configs = [m.obj for m in manifests if m.obj.get("kind") == _CONFIG and "clusters" in m.obj]
    if configs:
        from fairway.ground.clusters import ClusterGround

        return ClusterGround(path, configs[0], kueue_config)
    if any(is_of_a_server(m) for m in manifests):
        from fairway.ground.dumps import DumpGround

        return DumpGround(path, manifests, kueue_config)
    return None


def is_of_a_server(manifest: Manifest) -> bool:
    """Whether a server wrote into it: who applies manifests gives them no UID, no status (but a Node's, which says
    what it offers) and no pod its node."""
    obj = manifest.obj
    meta, spec, kind = obj.get("metadata"), obj.get("spec"), obj.get("kind")
    if isinstance(meta, dict) and meta.get("uid"):
        return True
    is_placed = kind == "Pod" and isinstance(spec, dict) and bool(spec.get("nodeName"))
    return is_placed or (kind in ("Pod", "Workload") and bool(obj.get("status")))
