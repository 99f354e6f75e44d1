#!/bin/bash
#SBATCH --job-name=sweep
#SBATCH --gres=gpu:1
#SBATCH --time=01:00:00
#SBATCH --output=/dev/null
#FAIRWAY runtime=40m
python train.py --fold "$SLURM_ARRAY_TASK_ID"
