import { collectGarbage } from "./garbage.js";

// Run before a process's own program, so that what it holds can be told from what it has not cleared away yet.
process.on("SIGUSR2", collectGarbage);
