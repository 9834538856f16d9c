// Transformations are tested in Node; `test/browser` drives a real Chromium and runs by itself, since it needs one.

import { defineConfig } from "vitest/config";

export default defineConfig({
  test: { include: ["test/**/*.test.ts"], testTimeout: 60_000, bail: 1, fileParallelism: false },
});
