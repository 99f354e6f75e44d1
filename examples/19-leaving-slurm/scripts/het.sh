#!/bin/bash
#SBATCH -J rl -A nlp -p cpu --ntasks=1 --cpus-per-task=16 --mem=32G -t 60
#SBATCH hetjob
#SBATCH -p dev --ntasks=1 --gpus-per-node=2 --cpus-per-task=8 --mem=64G
#FAIRWAY runtime=10m
srun --het-group=0 ./actor : --het-group=1 ./learner
