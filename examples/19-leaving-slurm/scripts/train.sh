#!/bin/bash
#SBATCH --job-name=llama
#SBATCH -A vision -p train
#SBATCH --nodes=2 --ntasks-per-node=1
#SBATCH --gpus-per-node=h100:8
#SBATCH --cpus-per-task=96
#SBATCH --mem=0
#SBATCH --time=1-12:00:00
#SBATCH --constraint="nvlink&ib"
#SBATCH --exclusive
#SBATCH --switches=1@1:00:00
#SBATCH --signal=USR1@300
#SBATCH --output=logs/%x-%j.out
#SBATCH --mail-type=END --mail-user=ann@uni
#SBATCH --qos=high
#FAIRWAY runtime=2h gpu=90
module load cuda/12
export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 --rdzv_endpoint $MASTER_ADDR:29500 train.py
