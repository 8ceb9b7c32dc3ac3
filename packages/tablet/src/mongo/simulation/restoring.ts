import { firstNumberAfter, restoredClaim } from "../../backup/restore.js";
import type { StoredChange } from "../../documents/schema.js";
import { type Ablation, type Callers, isLoss, ObservedStorage } from "./candidate.js";
import type { SimulatedProcess } from "./world.js";

/** Clock time at which a world begins. */
const BEGIN_MS = 2 ** 40;

let incarnations = 0;

/** Runs a process that restores a backup over the content of the database. */
export async function restoring(process: SimulatedProcess, callers: Callers, ablation: Ablation): Promise<void> {
  const { world } = process;
  process.isRestore = true;
  const [header, ...documents] = linesOf(callers.backups[world.below(callers.backups.length)] as string);
  if (world.happens(world.faults.drop)) world.dropDatabase(process);
  const { logNumber, ...backedUp } = header;
  const incarnation = `incarnation-${incarnations++}`;
  const firstNumber = firstNumberAfter(logNumber, BEGIN_MS + world.now);
  const restore = { ...restoredClaim(backedUp, incarnation), firstNumber, replace: true };
  const storage = new ObservedStorage(process, callers, ablation);
  try {
    const leader = { writer: incarnation, address: "a restore" };
    await storage.claim(leader, { restore: ablation.restore?.(restore) ?? restore });
    await storage.load(() => {});
    const half = world.below(documents.length + 1);
    for (const changes of [documents.slice(0, half), documents.slice(half)])
      await storage.commit(changes.map((change) => ({ ...change, previous: null })));
    await storage.claimAbove(restore.generation);
    world.count("restores");
  } catch (error) {
    if (!isLoss(error)) throw error;
    world.count("lostRestores");
  } finally {
    await storage.close({ handOver: true });
  }
}

type Header = Parameters<typeof restoredClaim>[0] & { readonly logNumber: number };
type Document = Omit<StoredChange, "previous">;

/** Returns the lines of a backup without its end line. */
function linesOf(backup: string): [Header, ...Document[]] {
  const lines = backup.trim().split("\n").slice(0, -1);
  return lines.map((line) => JSON.parse(line)) as [Header, ...Document[]];
}
