"""Small traces in the openb format, and the published ones where they lie."""

from pathlib import Path

PUBLISHED = Path(__file__).parents[3] / "shared" / "traces" / "openb"

NODES = """sn,cpu_milli,memory_mib,gpu,model
node-0,32000,65536,2,T4
node-1,64000,131072,4,V100
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time
pod-0,4000,8192,1,500,,0,100
pod-1,4000,8192,1,1000,T4,10,50
pod-2,8000,16384,2,1000,V100|A10,20,200
pod-3,2000,4096,0,0,,30,40
"""


def written(directory, nodes=NODES, pods=PODS):
    """The two files, as (nodes, pods) paths."""
    paths = directory / "nodes.csv", directory / "pods.csv"
    for path, text in zip(paths, (nodes, pods), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths
