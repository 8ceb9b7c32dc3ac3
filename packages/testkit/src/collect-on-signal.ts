import { renameSync, writeFileSync } from "node:fs";
import { collectGarbage, MEMORY_USE_FOLDER, type MemoryUse, memoryUseFile } from "./memory-use.js";

// This module is loaded before the main program (see COLLECTS_ON_SIGUSR2). A test that measures memory after a
// collection sees leaked memory and not uncollected garbage.
let times = 0;
process.on("SIGUSR2", () => {
  collectGarbage();
  // Objects held only for the current turn of the event loop are unreachable in the next one.
  setImmediate(() => {
    collectGarbage();
    times += 1;
    const folder = process.env[MEMORY_USE_FOLDER];
    if (folder !== undefined) report(folder);
  });
});

function report(folder: string): void {
  const { heapUsed, external } = process.memoryUsage();
  const use: MemoryUse = { times, heapBytes: heapUsed + external, resources: process.getActiveResourcesInfo().length };
  const path = memoryUseFile(folder, process.pid);
  // Written by rename, so that a reader never sees a partial file.
  writeFileSync(`${path}.new`, JSON.stringify(use));
  renameSync(`${path}.new`, path);
}
