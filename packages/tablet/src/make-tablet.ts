import { randomUUID } from "node:crypto";
import { AlreadyExistsError } from "@diskmesh/domain";
import { openStorage } from "./open-storage.js";
import type { Claim } from "./storage/storage.js";

/** Makes a new, empty tablet. Throws AlreadyExistsError, without any change, when the storage has one. */
export async function makeTablet(url: string, tabletName: string): Promise<Claim> {
  const storage = openStorage(url, tabletName);
  const giveUp = new AbortController();
  const onStandby = (leader: string): void =>
    giveUp.abort(new AlreadyExistsError(`the process at ${leader} leads tablet ${tabletName}`));
  const waiting = { expects: "nothing", onStandby, signal: giveUp.signal } as const;
  try {
    const claim = await storage.claim({ writer: randomUUID(), address: "diskmesh init" }, waiting);
    await storage.load(() => {});
    return claim;
  } finally {
    await storage.close({ handOver: true });
  }
}
