// Transformations are tested in Node, the page in a real Chromium. One file after the other, and no further after the first
// failure: a page that draws nothing would keep every test waiting.

import { defineConfig } from "vitest/config";

export default defineConfig({
  test: { include: ["test/**/*.test.ts"], testTimeout: 300_000, hookTimeout: 300_000, bail: 1, fileParallelism: false },
});
