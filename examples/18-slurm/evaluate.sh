#!/bin/bash
#SBATCH --job-name=evaluate
#SBATCH --gres=gpu:1
#SBATCH --time=00:30:00
#SBATCH --output=evaluate.log
# No hint: this script runs, as a process of this machine; its sleep is the cluster's time.
echo "$SLURM_JOB_USER evaluates on GPU $CUDA_VISIBLE_DEVICES of $(hostname)"
sleep 600
echo "after ten minutes: good"
