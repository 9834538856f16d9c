# Reads a stream as Tcl programs do: read through a channel's buffer. Usage: sink.tcl PORT SIZE; prints bytes/s.
lassign $argv port size
set end [socket 127.0.0.1 $port]
fconfigure $end -translation binary -buffersize $size
set began [clock microseconds]
set total 0
while {[set got [string length [read $end $size]]] > 0} {incr total $got}
puts "[expr {round($total * 1e6 / ([clock microseconds] - $began))}] bytes/s"
exit [expr {$total == 0}]
