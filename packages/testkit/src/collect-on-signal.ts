import { renameSync, writeFileSync } from "node:fs";
import { collectGarbage, HELD_FOLDER, type Held, heldFile } from "./garbage.js";

// Run before a process's own program, so that what it holds can be told from what it has not cleared away yet.
let times = 0;
process.on("SIGUSR2", () => {
  collectGarbage();
  // Objects that waited only for a turn of the event loop are released by then.
  setImmediate(() => {
    collectGarbage();
    times += 1;
    const folder = process.env[HELD_FOLDER];
    if (folder !== undefined) tell(folder);
  });
});

function tell(folder: string): void {
  const { heapUsed, external } = process.memoryUsage();
  const held: Held = { times, heapBytes: heapUsed + external, resources: process.getActiveResourcesInfo().length };
  const path = heldFile(folder, process.pid);
  // Renamed into place, so that a reader finds a whole file.
  writeFileSync(`${path}.new`, JSON.stringify(held));
  renameSync(`${path}.new`, path);
}
