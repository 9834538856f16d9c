#!/bin/bash
# Tests a bytegauge binary with iperf3 servers of several releases: iperf3-versions.sh BYTEGAUGE [FOLDER].
#
# Fetches the packages of Debian and Ubuntu with apt into FOLDER, installs nothing, and verifies their signatures. Versions in
# November 2026: 3.1.3 (bionic), 3.7 (focal), 3.9 (bullseye), 3.12 (bookworm), 3.16 (noble), 3.18 (trixie), 3.22 (sid). Needs
# apt-get and dpkg-deb, and takes about three minutes. The exit code is the number of failures.
set -u
bytegauge=$(realpath "$1")
folder=$(realpath -m "${2:-/tmp/iperf3-versions}")
debian="bullseye bookworm trixie sid"
ubuntu="bionic focal noble"
port=5310
failures=0

# suite ARCHIVE KEYRING COMPONENTS NAME: a state of apt of its own.
suite() {
    mkdir -p "$folder/$4"/{lists/partial,cache/archives/partial,sources,packages,root}
    touch "$folder/$4/status"
    printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: %s\nSigned-By: %s\n' "$1" "$4" "$3" "$2" >"$folder/$4/sources/suite.sources"
    apt "$4" update >"$folder/$4/apt.log" 2>&1
}

# apt NAME WORDS
apt() {
    local at=$folder/$1
    shift
    (cd "$at/packages" && apt-get -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$at/sources" -o Dir::State::lists="$at/lists" \
        -o Dir::Cache="$at/cache" -o Dir::State::status="$at/status" -o APT::Sandbox::User=root -o Acquire::Languages=none "$@")
}

# fetch NAME: the program with its libraries, and a script that starts it with them.
fetch() {
    local at=$folder/$1 root=$folder/$1/root package loader
    for package in iperf3 libiperf0 libsctp1 libc6 zlib1g libzstd1 libssl1.1 libssl3 libssl3t64; do
        apt "$1" download "$package" >>"$at/apt.log" 2>&1
    done
    for package in "$at"/packages/*.deb; do dpkg-deb -x "$package" "$root"; done
    loader=$(find "$root" -name 'ld-2*.so' -o -name 'ld-linux-x86-64.so.2' -type f | head -1)
    printf '#!/bin/sh\nexec %s --library-path %s/usr/lib/x86_64-linux-gnu:%s/lib/x86_64-linux-gnu %s/usr/bin/iperf3 "$@"\n' \
        "$loader" "$root" "$root" "$root" >"$at/iperf3"
    chmod +x "$at/iperf3"
}

# check NAME COMMAND
check() {
    local name=$1
    shift
    if timeout 60 "$@" >"$folder/last.log" 2>&1; then
        echo "ok    $name"
    else
        echo "FAIL  $name: $(tail -1 "$folder/last.log")"
        failures=$((failures + 1))
    fi
}

our_client() {
    check "$1: bytegauge $3" "$bytegauge" stream --connect "iperf3://127.0.0.1:$2" $3 --time 3s --store "$folder/results.db"
}

test_version() {
    local iperf3=$folder/$1/iperf3 version server options
    version=$("$iperf3" --version | awk 'NR == 1 { print $2 }')
    [ -n "$version" ] || { echo "FAIL  $1: no iperf3, see $folder/$1/apt.log"; failures=$((failures + 1)); return; }
    "$iperf3" -s -p $port >/dev/null 2>&1 &
    server=$!
    sleep 0.5
    for options in "--write-size 64K" "--role reader --read-size 64K" "--write-size 64K --flows 4" \
        "--transport udp --write-size 1200 --rate 50Mbit" "--transport udp --direction from --write-size 1200 --read-size 2000 --rate 50Mbit"; do
        our_client "$version" $port "$options"
    done
    kill $server
    port=$((port + 1))
}

mkdir -p "$folder"
for name in $debian; do suite http://deb.debian.org/debian /usr/share/keyrings/debian-archive-keyring.gpg main "$name"; done
# The keys of Ubuntu come in a package of Debian.
apt sid download ubuntu-keyring >/dev/null 2>&1
dpkg-deb -x "$folder"/sid/packages/ubuntu-keyring*.deb "$folder/keys"
rm -f "$folder"/sid/packages/ubuntu-keyring*.deb
keyring=$folder/keys/usr/share/keyrings/ubuntu-archive-keyring.gpg
for name in $ubuntu; do suite http://archive.ubuntu.com/ubuntu "$keyring" "main universe" "$name"; done
for name in $ubuntu $debian; do
    fetch "$name"
    test_version "$name"
done
echo "$failures failures"
exit "$failures"
