# Reads a stream as Ruby programs do: readpartial into one string. Usage: sink.rb PORT SIZE; prints bytes/s.
require "socket"

port, size = ARGV.map(&:to_i)
stream = TCPSocket.new("127.0.0.1", port)
began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
total = 0
bytes = +""
begin
  loop { total += stream.readpartial(size, bytes).bytesize }
rescue EOFError
  # The stream is over.
end
puts "#{(total / (Process.clock_gettime(Process::CLOCK_MONOTONIC) - began)).round} bytes/s"
exit(total.positive?)
