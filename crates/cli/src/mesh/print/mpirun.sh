#!/bin/bash
# Create the key once: bytegauge agent --init --key-file bytegauge.key
# The file "hosts" has one host per line. The directory must be on a file system that all hosts share.
# A process that fails leaves the others running (Open MPI 4).
export OMPI_MCA_orte_abort_on_non_zero_status=0 OMPI_MCA_orte_enable_recovery=1
mpirun -np @SIZE@ --hostfile hosts --map-by ppr:1:node --bind-to none \
    bytegauge mesh --key-file "$PWD/bytegauge.key" --out "$PWD/mesh"@FLAGS@
