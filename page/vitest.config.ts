// Transformations are tested in Node, the page in a real Chromium. One file after the other, and no further after the first
// failure: a page that draws nothing would keep every test waiting. Once more where it failed: a browser, and the program that
// measures for one of them, may be starved by whatever else a machine does.

import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 300_000,
    hookTimeout: 300_000,
    retry: 1,
    bail: 1,
    fileParallelism: false,
  },
});
