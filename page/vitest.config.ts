// Tests functions in Node and the page in Chromium. Files run one after another and stop at the first failure, since a page that
// draws nothing would keep every test waiting. Time limits detect missing events; they are far above the slowest machine.

import { defineConfig } from "vitest/config";

const PATIENCE_MS = 300_000;

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: PATIENCE_MS,
    hookTimeout: PATIENCE_MS,
    // The default of ten seconds is too short for a browser on a busy machine.
    teardownTimeout: PATIENCE_MS,
    bail: 1,
    fileParallelism: false,
  },
});
