// Reads a stream in Node.js into one buffer of SIZE (the option `onread`; without it Node reads 64 KiB at a time).
// Usage: node sink.mjs ADDRESS SIZE; prints bytes/s. A peer to compare with; it shares no code with bytegauge.
import net from "node:net";

const [address, size] = process.argv.slice(2);
const place = address.includes("/") ? { path: address } : { host: "127.0.0.1", port: Number(address) };
let began = 0n;
let total = 0;
const onread = {
  buffer: Buffer.alloc(Number(size)),
  callback(got) {
    total += got;
    return true;
  },
};
const end = net.connect({ ...place, onread }, () => {
  began = process.hrtime.bigint();
});
end.on("end", () => {
  const seconds = Number(process.hrtime.bigint() - began) / 1e9;
  console.log(`${(total / seconds).toFixed(0)} bytes/s`);
  process.exitCode = total > 0 ? 0 : 1;
});
