#!/bin/bash
# Create the key once: bytegauge agent --init --key-file bytegauge.key
# The file "hosts" has one host per line. pdsh replaces %n by the number of the host, from 0.
# The directory must be on a file system that all hosts share.
pdsh -f @SIZE@ -w ^hosts bytegauge mesh --rank %n --size @SIZE@ --key-file "$PWD/bytegauge.key" --out "$PWD/mesh"@FLAGS@
