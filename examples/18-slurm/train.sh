#!/bin/bash
#SBATCH --job-name=train
#SBATCH --partition=gpu
#SBATCH --nodes=1
#SBATCH --gres=gpu:8
#SBATCH --cpus-per-task=64
#SBATCH --time=06:00:00
#SBATCH --output=output.log
#FAIRWAY runtime=5h gpu=85
srun python train.py
