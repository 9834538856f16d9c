// Writes BYTES by socket.write(SIZE) to whoever connects, and waits for `drain`. Usage: node source.mjs PORT BYTES SIZE.
import { createServer } from "node:net";

const [port, total, size] = process.argv.slice(2).map(Number);
const piece = Buffer.alloc(size);
createServer((end) => {
    let left = total;
    const write = () => {
        while (left > 0) {
            left -= size;
            if (!end.write(piece)) {
                end.once("drain", write);
                return;
            }
        }
        end.end();
    };
    end.on("error", () => end.destroy());
    write();
}).listen(port, "127.0.0.1");
