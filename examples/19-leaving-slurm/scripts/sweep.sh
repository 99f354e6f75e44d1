#!/bin/bash
#SBATCH -J sweep -A nlp -p dev -a 0-19:2%4
#SBATCH --gres=gpu:a100:1 -c 8 --mem-per-cpu=4G -t 2:00:00 --requeue
#SBATCH --dependency=afterok:1234
#FAIRWAY runtime=20m
python sweep.py --index $SLURM_ARRAY_TASK_ID
