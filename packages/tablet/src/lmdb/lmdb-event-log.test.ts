import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventLogContract } from "../contract/event-log-contract.js";
import { openLmdbEventLog } from "./lmdb-event-log.js";

eventLogContract("LMDB", async () => {
  const folder = await mkdtemp(join(tmpdir(), "diskmesh-log-"));
  return {
    open: () => openLmdbEventLog({ folder }),
    remove: () => rm(folder, { recursive: true }),
  };
});
