import { UnavailableError } from "@diskmesh/domain";
import { type DocumentServer, LostAnswerError, type Range, type StoredDocument } from "../document-server.js";
import { type Entry, EVERY_KIND } from "../log.js";
import { type Ablation, changed, SAFE_LEASE_TIME_MS } from "./candidate.js";
import { RESTORE_ABLATIONS } from "./restore-ablations.js";
import { LOG } from "./shared-documents.js";
import type { Climate, SimulatedProcess } from "./world.js";

const answeredAtMs = new WeakMap<SimulatedProcess, number>();

/**
 * Each entry removes one protocol rule by changing an operation of the server, to prove that the simulation detects the
 * missing rule. `climate` is the set of fault rates that reveals it soonest.
 */
export const ABLATIONS: Readonly<Record<string, Ablation & { readonly climate: Climate }>> = {
  "claims and loads are never deleted": {
    climate: "sleepy",
    // Keeps the first entry, because every claim fails without it.
    server: (server) =>
      changed(server, { delete: (collection, { below }) => server.delete(collection, { after: 1, below }) }),
  },
  "leftovers of a dead leader are dropped": {
    climate: "usual",
    server: (server) =>
      changed(server, {
        find: async (collection, range) => {
          const found = await server.find(collection, range);
          // Hides load entries from reads that ask for loads. Reads of all kinds still return them, because the log
          // would otherwise have gaps.
          const isOfLoads = collection === LOG && range.kinds?.includes("load") && !range.kinds.includes("commit");
          return isOfLoads ? found.filter(({ kind }) => kind !== "load") : found;
        },
      }),
  },
  "a claimant checks that its claim is the last entry": { climate: "crowded", server: withoutLastEntryCheck },
  "an apply write whose answer was lost is not sent again": {
    climate: "lossy",
    server: (server) =>
      changed(server, {
        write: async (collection, writes) => {
          for (;;) {
            try {
              return await server.write(collection, writes);
            } catch (error) {
              if (!(error instanceof LostAnswerError)) throw error;
            }
          }
        },
      }),
  },
  "an insert that an older write overtook is done again": {
    climate: "lossy",
    server: (server) =>
      changed(server, {
        write: async (collection, writes) => {
          const { refused } = await server.write(collection, writes);
          return { present: [], refused };
        },
      }),
  },
  "a candidate waits until the lease was not renewed for its time": {
    climate: "usual",
    onLeases: true,
    leaseTimeMs: 0,
  },
  "a candidate takes the lease only as it last read it": {
    climate: "lossy",
    onLeases: true,
    server: (server) =>
      changed(server, {
        update: (collection, id, where, change) =>
          server.update(collection, id, where.renewals === undefined ? where : {}, change),
      }),
  },
  "a leader renews only its own lease": {
    climate: "crowded",
    onLeases: true,
    server: (server) =>
      changed(server, {
        update: (collection, id, where, change) =>
          server.update(collection, id, Object.keys(change.set).length === 0 ? {} : where, change),
      }),
  },
  "the lease counts from when the renewal was sent": {
    climate: "lossy",
    onLeases: true,
    server: (server, process) =>
      changed(server, {
        update: async (collection, id, where, change) => {
          const done = await server.update(collection, id, where, change);
          if (done) answeredAtMs.set(process, process.clock.monotonicMs());
          return done;
        },
      }),
    checkLease: (process) => {
      const safeUntilMs = (answeredAtMs.get(process) ?? Number.NEGATIVE_INFINITY) + SAFE_LEASE_TIME_MS;
      if (process.clock.monotonicMs() >= safeUntilMs) throw new UnavailableError("the lease ran out");
    },
  },
  "a new leader renews its lease before it serves": { climate: "lossy", onLeases: true, server: withoutFirstRenewal },
  "a follower notices entries that were deleted before it read them": {
    climate: "usual",
    onLeases: true,
    // Ignores the sums, too, because a comparison with the sums would reveal the gap as well.
    ignoresSums: true,
    server: (server) => withLogRead(server, (entries, last, range) => filled(entries, last, range.after as number)),
  },
  "a follower reads on up to its own claim": { climate: "usual", onLeases: true, server: withoutLastRead },
  ...RESTORE_ABLATIONS,
  "reads are answered under the lease only": { climate: "crowded", onLeases: true, checkLease: () => {} },
};

/** Removes the check that refuses incomplete states. */
export const WITHOUT_SUMS: Ablation = { ignoresSums: true };

/** Makes the read after the claim return the claim itself as the last entry. */
function withoutLastEntryCheck(server: DocumentServer): DocumentServer {
  let tried: StoredDocument | undefined;
  let claimed: StoredDocument | undefined;
  return changed(server, {
    insert: async (collection, document) => {
      if (document.kind === "claim") tried = document;
      const inserted = await server.insert(collection, document);
      if (inserted && document === tried) claimed = document;
      return inserted;
    },
    get: async (collection, id) => {
      const stored = await server.get(collection, id);
      if (collection === LOG && stored !== undefined && stored.writer === tried?.writer) claimed = stored;
      return stored;
    },
    find: async (collection, range) => {
      const found = await server.find(collection, range);
      if (collection !== LOG || !range.descending || claimed === undefined) return found;
      const answer = [claimed];
      claimed = undefined;
      return answer;
    },
  });
}

type LogRead = (entries: readonly Entry[], last: Entry | undefined, range: Range) => readonly Entry[];

/** Changes the results of log reads that ask for entries of every kind. `last` is the last entry returned so far. */
function withLogRead(server: DocumentServer, read: LogRead): DocumentServer {
  let last: Entry | undefined;
  return changed(server, {
    find: async (collection, range) => {
      const found = await server.find(collection, range);
      if (collection !== LOG || range.kinds?.length !== EVERY_KIND.length) return found;
      const given = read(found as unknown as Entry[], last, range);
      last = given.at(-1) ?? last;
      return given as unknown as StoredDocument[];
    },
  });
}

/** Fills gaps between entries with checkpoints that have no effect. */
function filled(entries: readonly Entry[], last: Entry | undefined, after: number): Entry[] {
  const whole: Entry[] = [];
  for (const entry of entries) {
    while (after + whole.length + 1 < entry._id) {
      const { generation, writer } = whole.at(-1) ?? last ?? entry;
      whole.push({ _id: after + whole.length + 1, generation, writer, kind: "checkpoint", upTo: 0, sums: {} });
    }
    whole.push(entry);
  }
  return whole;
}

/** Removes the changes from commits between a follower's last read and its claim. */
function withoutLastRead(server: DocumentServer): DocumentServer {
  let isFollowing = false;
  return withLogRead(server, (entries, _last, { below }) => {
    isFollowing ||= below === undefined;
    if (!isFollowing || below === undefined) return entries;
    return entries.map((entry) => (entry.kind === "commit" ? { ...entry, changes: [] } : entry));
  });
}

/** Answers the renewal after the load entry without doing it. */
function withoutFirstRenewal(server: DocumentServer): DocumentServer {
  let isFirst = false;
  return changed(server, {
    insert: async (collection, document) => {
      const inserted = await server.insert(collection, document);
      if (document.kind === "load") isFirst = true;
      return inserted;
    },
    update: async (collection, id, where, change) => {
      if (!isFirst || Object.keys(change.set).length > 0) return server.update(collection, id, where, change);
      isFirst = false;
      return true;
    },
  });
}
