import type { DocumentServer, StoredDocument } from "../document-server.js";
import { type Ablation, changed } from "./candidate.js";
import { LOG } from "./shared-documents.js";
import type { Climate, SimulatedProcess } from "./world.js";

/** Like ABLATIONS, for the rules of restores. */
export const RESTORE_ABLATIONS: Readonly<Record<string, Ablation & { readonly climate: Climate }>> = {
  "a restore keeps the log": {
    climate: "restored",
    server: ofRestores((server) => {
      let isEmpty = false;
      return changed(server, {
        find: async (collection, range) => {
          if (!isEmpty) await server.delete(LOG, {});
          isEmpty = true;
          return server.find(collection, range);
        },
      });
    }),
  },
  "a restore claims the next number": { climate: "restored", server: ofRestores(withoutFence) },
  "a restore checks that its incarnation begins behind the last entry": {
    climate: "dropped",
    server: ofRestores(withoutSecondCheck),
  },
  "a restore claims above the database's generation": {
    climate: "restored",
    server: ofRestores((server) =>
      changed(server, {
        find: async (collection, range) => {
          const found = await server.find(collection, range);
          return range.descending ? found.map((entry) => ({ ...entry, generation: 1 })) : found;
        },
      }),
    ),
  },
  "a restored log begins above a dropped one": {
    climate: "dropped",
    restore: (restore) => ({ ...restore, firstNumber: 0 }),
  },
  "two restores of one backup share no numbers": {
    climate: "dropped",
    restore: (restore) => ({ ...restore, firstNumber: 2 ** 32 }),
  },
  "a restore claims the number at which an interrupted one may continue": {
    climate: "restored",
    server: ofRestores((server) =>
      changed(server, {
        find: async (collection, range) => {
          const found = await server.find(collection, range);
          return range.descending ? found.map(({ firstNumber, ...entry }) => entry) : found;
        },
      }),
    ),
  },
  "leftovers of earlier incarnations in the view are dropped": { climate: "restored", server: withEarlierIncarnations },
  "a partial restore is not served": {
    climate: "restored",
    server: (server) =>
      changed(server, {
        find: async (collection, range) => {
          const found = await server.find(collection, range);
          return range.descending ? found.map(({ isRestore, ...entry }) => entry) : found;
        },
      }),
  },
};

function ofRestores(ablate: (server: DocumentServer) => DocumentServer) {
  return (server: DocumentServer, process: SimulatedProcess) => (process.isRestore ? ablate(server) : server);
}

/**
 * Answers the insert of a restore's first claim without doing it. The next read returns that claim as the last entry.
 */
function withoutFence(server: DocumentServer): DocumentServer {
  let claim: StoredDocument | undefined;
  let isShown = false;
  return changed(server, {
    insert: async (collection, document) => {
      if (claim !== undefined || document.kind !== "claim") return server.insert(collection, document);
      claim = document;
      return true;
    },
    find: async (collection, range) => {
      if (claim === undefined || isShown) return server.find(collection, range);
      isShown = true;
      return [claim];
    },
  });
}

/** Makes the read after the second claim return that claim as the last entry. */
function withoutSecondCheck(server: DocumentServer): DocumentServer {
  const claims: StoredDocument[] = [];
  return changed(server, {
    insert: async (collection, document) => {
      if (document.kind === "claim" && claims[0]?._id !== document._id) claims.unshift(document);
      return server.insert(collection, document);
    },
    find: async (collection, range) => {
      const found = await server.find(collection, range);
      const [latest] = claims;
      const isFirst = latest?._id === latest?.firstNumber;
      return range.descending && latest !== undefined && isFirst ? [latest] : found;
    },
  });
}

/**
 * Raises the numbers of the view's documents from earlier incarnations to the first number of the current incarnation,
 * so that they do not count as leftovers.
 */
function withEarlierIncarnations(server: DocumentServer): DocumentServer {
  let first = 1;
  return changed(server, {
    insert: (collection, document) => {
      if (document.kind === "claim") first = document.firstNumber as number;
      return server.insert(collection, document);
    },
    find: async (collection, range) => {
      const found = await server.find(collection, range);
      if (collection === LOG) return found;
      return found.map((stored) => ({ ...stored, _seq: Math.max(first, stored._seq as number) }));
    },
  });
}
