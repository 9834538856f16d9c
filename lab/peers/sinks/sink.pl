# Reads a stream as Perl programs do: sysread of SIZE until it ends. Usage: sink.pl ADDRESS SIZE; prints bytes/s.
use strict;
use warnings;
use IO::Socket::INET;
use IO::Socket::UNIX;
use Time::HiRes qw(time);

my ($address, $size) = @ARGV;
my $end = $address =~ m{/}
    ? IO::Socket::UNIX->new(Peer => $address)
    : IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $address);
die "connecting to $address: $!" unless $end;
my ($began, $total) = (time, 0);
while (my $got = sysread $end, my $bytes, $size) { $total += $got }
printf "%.0f bytes/s\n", $total / (time - $began);
exit($total ? 0 : 1);
