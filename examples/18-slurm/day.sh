#!/bin/sh
# Four users' work on the cluster of conf/. Run in `fairway slurm shell --user root`, in a folder for the outputs.
here=$(cd "$(dirname "$0")" && pwd)
as() { FAIRWAY_AS=$1 sbatch --parsable $2; }

train=$(as alice "$here/train.sh")
as alice "--dependency=afterok:$train $here/evaluate.sh" >/dev/null
as bob "$here/train.sh" >/dev/null      # 8 more GPUs of vision, whose limit is 12
as carol "--array=0-9%4 $here/sweep.sh" >/dev/null
