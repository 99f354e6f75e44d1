#!/bin/bash
#SBATCH -J cfd -A ops -p cpu -N 2 --ntasks-per-node=32 --time=4:00:00
#FAIRWAY runtime=30m
mpirun ./cfd
