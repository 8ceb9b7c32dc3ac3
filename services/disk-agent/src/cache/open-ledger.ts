import * as nodeFiles from "node:fs/promises";
import { type HostId, type Logger, messageOf } from "@diskmesh/domain";
import { type AgentMemory, emptyMemory } from "../model/memory.js";
import { forgetLabelSessions } from "../model/sessions.js";
import { decodeCache, encodeCache } from "./cache-contents.js";
import { CacheFile, type CacheFileSystem, type ReadFile, readIfThere } from "./cache-file.js";
import { hasEarlierLife } from "./earlier-life.js";
import { Ledger } from "./ledger.js";
import { seal, unseal } from "./seal.js";
import { latestText } from "./slots.js";

/**
 * Opens the agent's memory. `cacheIsLost` means that the agent has run before and its cache is gone or unusable. The
 * agent then no longer knows which devices it must not hold, so it opens none before a registry has answered. Renames
 * an unusable cache file.
 */
export async function openLedger(
  hostId: HostId,
  { cacheFile: path, markFile }: { readonly cacheFile: string; readonly markFile: string },
  { nowMs, files, log }: { readonly nowMs: number; readonly files: CacheFileSystem; readonly log: Logger },
): Promise<{ readonly ledger: Ledger; readonly cacheIsLost: boolean }> {
  const found = await readIfThere(path, files);
  const earlierLife = await hasEarlierLife(markFile, found !== undefined, files);
  const { memory, problem } = found ? contentsOf(found, hostId) : {};
  const cacheIsLost = memory === undefined && earlierLife;
  if (problem !== undefined) {
    const aside = `${path}.unusable-${nowMs}`;
    await files.rename(path, aside);
    log.error({ cacheFile: path, setAside: aside, reason: problem }, "unusable cache file renamed");
  }
  if (cacheIsLost) log.error({ cacheFile: path }, "cache lost, devices stay closed until registration");
  const now = forgetLabelSessions(memory ?? emptyMemory(hostId));
  const encode = (contents: AgentMemory) => seal(asAscii(encodeCache(contents)));
  // Does not replace a lost cache by an empty one, which would look intact at the next start.
  const stored = cacheIsLost ? now : memory;
  const file = new CacheFile({ path, encode, stored, files });
  return { ledger: new Ledger(now, file), cacheIsLost };
}

/** Reads the agent's memory without changing anything, also while an agent runs. */
export async function readMemory(
  hostId: HostId,
  cacheFile: string,
): Promise<{ readonly memory: AgentMemory } | { readonly problem: string }> {
  const found = await readIfThere(cacheFile, nodeFiles);
  if (found === undefined) return { problem: "there is no such file" };
  const { memory, problem = "it holds nothing valid" } = contentsOf(found, hostId);
  return memory === undefined ? { problem } : { memory };
}

function contentsOf(found: ReadFile, hostId: HostId): { memory?: AgentMemory; problem?: string } {
  if ("problem" in found) return found;
  try {
    return { memory: decodeCache(unseal(latestText(found.text)), hostId) };
  } catch (error) {
    return { problem: messageOf(error) };
  }
}

/** Escapes JSON to ASCII, so that the text's length is its number of bytes. */
function asAscii(text: string): string {
  return text.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
