# Writes BYTES by syswrite of SIZE to whoever connects. Usage: source.pl PORT BYTES SIZE.
use strict;
use warnings;
use IO::Socket::INET;

my ($port, $total, $size) = @ARGV;
my $listener = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $port, Listen => 16, ReuseAddr => 1)
    or die "listening at $port: $!";
$SIG{PIPE} = "IGNORE";
my $piece = "\0" x $size;
while (my $end = $listener->accept) {
    for (my $left = $total; $left > 0;) {
        my $wrote = syswrite $end, $piece, $left < $size ? $left : $size;
        last unless $wrote;
        $left -= $wrote;
    }
    close $end;
}
