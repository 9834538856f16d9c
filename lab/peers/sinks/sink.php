<?php
// Reads a stream as PHP programs do: fread, with this chunk size. Usage: sink.php PORT SIZE; prints bytes/s.
[, $port, $size] = $argv;
$end = stream_socket_client("tcp://127.0.0.1:$port");
stream_set_chunk_size($end, (int) $size);
$began = hrtime(true);
$total = 0;
while (!feof($end)) {
    $total += strlen(fread($end, (int) $size));
}
printf("%.0f bytes/s\n", $total / (hrtime(true) - $began) * 1e9);
exit($total ? 0 : 1);
