#!/bin/bash
# Create the key once: bytegauge agent --init --key-file bytegauge.key
# Start with: sbatch mesh.sh
#SBATCH --job-name=bytegauge-mesh
#SBATCH --nodes=@SIZE@
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --output=bytegauge-mesh-%j.txt
# The directory must be on a file system that all nodes share.
srun --kill-on-bad-exit=0 bytegauge mesh --key-file bytegauge.key --out mesh-$SLURM_JOB_ID@FLAGS@
