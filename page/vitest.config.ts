// Transformations are tested in Node, the page in a real Chromium. One file after the other, and no further after the first
// failure: a page that draws nothing would keep every test waiting. Nothing here is bounded by how fast a machine is: each
// bound tells only what never comes from what is late.

import { defineConfig } from "vitest/config";

const PATIENCE_MS = 300_000;

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: PATIENCE_MS,
    hookTimeout: PATIENCE_MS,
    // Ten seconds where nothing is said: too few for a browser to go on a machine that is busy.
    teardownTimeout: PATIENCE_MS,
    bail: 1,
    fileParallelism: false,
  },
});
