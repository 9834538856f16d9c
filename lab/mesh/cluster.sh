#!/bin/bash
# cluster.sh HOSTS COMMAND…: runs COMMAND in a throw-away cluster on this machine.
#
# The hosts n1 to nN (10.77.0.2 and so on) and ctl (10.77.0.1) are network namespaces on one bridge, with Slurm and sshd.
# Everything is inside private namespaces: when COMMAND ends, every daemon, interface and mount is gone. Needs root, and of
# Debian: slurmctld slurmd slurm-client munge openssh-server openmpi-bin pdsh iproute2 util-linux.
#
# LINK_MBIT is the rate of each host's link. SLOW_HOST=n5 has 60 % of it in both directions. SLOW_LINK=n3,n9: these two hosts have
# 60 % of it between each other. BYTEGAUGE is the program; it is installed as `bytegauge` within the cluster.
set -euo pipefail
self=$(readlink -f "$0")
if [ "${1:-}" != --inner ]; then
  exec unshare --net --mount --uts --ipc --pid --fork --kill-child=KILL --mount-proc "$self" --inner "$@"
fi
shift
size=$1
shift
net=10.77.0
mbit=${LINK_MBIT:-100}
slow=$((mbit * 60 / 100))

mkdir -p /etc/netns /run/netns
mount -t tmpfs -o mode=755 cluster /etc/netns
mount -t tmpfs -o mode=755 cluster /run/netns
mount -t tmpfs -o mode=755 cluster /usr/local/bin
umount /sys/fs/cgroup/unified 2> /dev/null || true
install -m 755 "$BYTEGAUGE" /usr/local/bin/bytegauge
dir=/etc/netns/cluster
mkdir -m 755 $dir
export CLUSTER=$dir SLURM_CONF=$dir/slurm.conf

# onhost HOST COMMAND…: as HOST, with its name and network. nsenter, because `ip netns exec` mounts /sys anew, where slurmd then
# finds no control groups.
cat > /usr/local/bin/onhost << 'C'
#!/bin/sh
host=$1
shift
exec nsenter --net=/run/netns/"$host" unshare --uts --mount sh -c \
  'hostname "$0"; mount --bind "$CLUSTER/hosts" /etc/hosts; exec "$@"' "$host" "$@"
C
chmod 755 /usr/local/bin/onhost

# Network: one cable per host. Neighbours are permanent, since N × N entries overflow the kernel's table from 33 hosts on.
hosts=(ctl $(seq -f 'n%g' 1 "$size"))
mac() { printf '02:00:0a:4d:00:%02x' "$1"; }
number() { # of a host
  [ "$1" = ctl ] && echo 1 || echo $((${1#n} + 1))
}
ip link set lo up
ip link add br0 type bridge
ip link set br0 up
echo "127.0.0.1 localhost" > $dir/hosts
for host in "${hosts[@]}"; do echo "$net.$(number "$host") $host" >> $dir/hosts; done
for host in "${hosts[@]}"; do
  i=$(number "$host")
  ip netns add "$host"
  ip link add "p$i" type veth peer name eth0 address "$(mac "$i")" netns "$host"
  ip link set "p$i" master br0 up
  {
    echo "link set lo up"
    echo "addr add $net.$i/24 dev eth0"
    echo "link set eth0 up"
    for k in $(seq 1 ${#hosts[@]}); do
      [ "$k" = "$i" ] || echo "neigh replace $net.$k lladdr $(mac "$k") dev eth0 nud permanent"
    done
  } | ip -n "$host" -batch -
done

# Rates: class 10 is the link of a host, class 20 its slow connection.
shape() { # NAMESPACE-OR-- DEVICE MBIT
  local tc=(tc)
  [ "$1" = - ] || tc=(tc -n "$1")
  "${tc[@]}" qdisc add dev "$2" root handle 1: htb default 10
  "${tc[@]}" class add dev "$2" parent 1: classid 1:10 htb rate "$3mbit" burst 128k cburst 128k quantum 60000
}
slow_to() { # HOST OTHER
  tc -n "$1" class add dev eth0 parent 1: classid 1:20 htb rate "${slow}mbit" burst 128k cburst 128k quantum 60000
  tc -n "$1" filter add dev eth0 parent 1: protocol ip u32 match ip dst "$net.$(number "$2")/32" flowid 1:20
}
for host in "${hosts[@]:1}"; do
  if [ "$host" = "${SLOW_HOST:-}" ]; then
    shape "$host" eth0 "$slow"
    shape - "p$(number "$host")" "$slow"
  else
    shape "$host" eth0 "$mbit"
  fi
done
if [ -n "${SLOW_LINK:-}" ]; then
  slow_to "${SLOW_LINK%,*}" "${SLOW_LINK#*,}"
  slow_to "${SLOW_LINK#*,}" "${SLOW_LINK%,*}"
fi

# Slurm.
mkdir -p $dir/state $dir/spool $dir/log $dir/run
dd if=/dev/urandom of=$dir/munge.key bs=128 count=1 2> /dev/null
chmod 600 $dir/munge.key
cat > $dir/slurm.conf << C
ClusterName=cluster
SlurmctldHost=ctl($net.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.sock
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd-%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
TreeWidth=65533
MessageTimeout=60
NodeName=n[1-$size] NodeAddr=$net.[2-$((size + 1))] CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=120 State=UP OverSubscribe=YES
C
echo CgroupPlugin=autodetect > $dir/cgroup.conf
onhost ctl munged --key-file=$dir/munge.key --socket=$dir/munge.sock --pid-file=$dir/run/munged.pid \
  --log-file=$dir/log/munged.log --seed-file=$dir/munge.seed --num-threads=2 2> /dev/null
onhost ctl slurmctld
for host in "${hosts[@]:1}"; do
  mkdir -p "$dir/spool/$host"
  onhost "$host" slurmd
done
for _ in $(seq 300); do
  [ "$(onhost ctl sinfo -h -o %T:%D)" = "idle:$size" ] && break
  sleep 0.2
done

# sshd on each host, for mpirun and pdsh.
mkdir -p -m 755 /run/sshd
mkdir -m 700 $dir/ssh
ssh-keygen -qt ed25519 -N '' -f $dir/ssh/host
ssh-keygen -qt ed25519 -N '' -f $dir/ssh/id
cp $dir/ssh/id.pub $dir/ssh/authorized_keys
cat > $dir/ssh/config << C
Host n* $net.*
  User root
  IdentityFile $dir/ssh/id
  IdentitiesOnly yes
  UserKnownHostsFile $dir/ssh/known_hosts
  BatchMode yes
C
for host in "${hosts[@]:1}"; do
  echo "$host,$net.$(number "$host") $(cut -d' ' -f1,2 $dir/ssh/host.pub)" >> $dir/ssh/known_hosts
  printf '%s\n' "ListenAddress $net.$(number "$host")" "HostKey $dir/ssh/host" "AuthorizedKeysFile $dir/ssh/authorized_keys" \
    "PidFile $dir/ssh/$host.pid" "PermitRootLogin prohibit-password" "PasswordAuthentication no" "UsePAM no" "StrictModes no" \
    "MaxStartups 200" > "$dir/ssh/$host.conf"
  onhost "$host" /usr/sbin/sshd -f "$dir/ssh/$host.conf" -E "$dir/ssh/$host.log"
done
export OMPI_MCA_plm_rsh_agent="ssh -F $dir/ssh/config" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PDSH_RCMD_TYPE=ssh PDSH_SSH_ARGS_APPEND="-F $dir/ssh/config"
"$@"
