import { ManualClock } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { hexOf } from "../documents/checksums.js";
import { TrackedStorage } from "../testing/tracked-storage.js";
import { type DocumentServer, LostAnswerError } from "./document-server.js";
import { encodeDocument } from "./encoding.js";
import { FollowedState } from "./followed-state.js";
import type { ClaimEntry, Entry, LoggedChange } from "./log.js";
import { MongoStorage } from "./mongo-storage.js";
import { changed } from "./simulation/candidate.js";
import { idealServer } from "./testing/ideal-server.js";

const checked = (id: string, document: object) => encodeDocument("hosts", id, { document, version: 1 }).fields;
const stored = (id: string, n: number, seq: number) => ({ _id: id, _seq: seq, ...checked(id, { n }) });
const put = (id: string, n: number): LoggedChange => ({ table: "hosts", id, document: checked(id, { n }) });
const remove = (id: string): LoggedChange => ({ table: "hosts", id, document: null });

function claim(_id: number, generation: number): ClaimEntry {
  const tablet = { tabletId: "t", incarnation: "i", parentIncarnations: [], firstNumber: 1, format: 2, address: "" };
  const writer = `w${generation}`;
  return { _id, generation, writer, kind: "claim", previousGeneration: generation - 1, ...tablet };
}
function commit(_id: number, generation: number, ...changes: LoggedChange[]): Entry {
  return { _id, generation, writer: `w${generation}`, kind: "commit", changes, sums: {} };
}
function checkpoint(_id: number, generation: number, upTo: number): Entry {
  return { _id, generation, writer: `w${generation}`, kind: "checkpoint", upTo, sums: {} };
}

describe("a followed state", () => {
  const cases: Readonly<Record<string, { entries: Entry[]; added: number; upToClaim?: [number, number, boolean] }>> = {
    "every entry of a leader": { entries: [commit(6, 2), checkpoint(7, 2, 6), commit(8, 2)], added: 3 },
    "the next leader's entries": { entries: [commit(6, 2), claim(7, 3), commit(8, 3)], added: 3 },
    "no entry after a gap": { entries: [commit(6, 2), commit(8, 2)], added: 1 },
    "no entry after a gap at the start": { entries: [commit(7, 2)], added: 0 },
    "no entry of another writer without a claim": {
      entries: [commit(6, 2), { ...commit(7, 2), writer: "other" }],
      added: 1,
    },
    // Entry 7 of generation 2 was applied and deleted; then a suspended candidate claimed at number 7.
    "nothing of the former leader after a late claim": {
      entries: [commit(6, 2), claim(7, 3), commit(8, 2)],
      added: 2,
    },
    "nothing of the next leader after a late claim": { entries: [commit(6, 2), claim(7, 3), claim(8, 3)], added: 2 },
    "a claim with a far higher generation that names the former one": {
      entries: [commit(6, 2), { ...claim(7, 900), previousGeneration: 2 }, commit(8, 900)],
      added: 3,
    },
    "nothing of a claim with a far higher generation after a late claim": {
      entries: [commit(6, 2), { ...claim(7, 3), previousGeneration: 2 }, { ...claim(8, 900), previousGeneration: 2 }],
      added: 2,
    },
    "no entry after a late claim at the start": { entries: [claim(6, 3), commit(7, 2)], added: 1 },
    "entries up to a claim": { entries: [commit(6, 2)], added: 1, upToClaim: [7, 3, true] },
    "its last claim as its end": { entries: [claim(6, 3)], added: 1, upToClaim: [6, 3, true] },
    "a claim that a newer one follows, but not as its end": {
      entries: [claim(6, 3), claim(7, 4)],
      added: 2,
      upToClaim: [6, 3, false],
    },
    "a claim, but not another writer's as its end": { entries: [claim(6, 3)], added: 1, upToClaim: [6, 4, false] },
    "an entry, but no claim after a gap as its end": { entries: [commit(6, 2)], added: 1, upToClaim: [8, 3, false] },
    "a late claim, but no claim after it as its end": {
      entries: [commit(6, 2), claim(7, 3)],
      added: 2,
      upToClaim: [8, 3, false],
    },
  };
  for (const [what, { entries, added, upToClaim }] of Object.entries(cases)) {
    it(`accepts ${what}`, () => {
      const state = new FollowedState(5, [], "here");
      let count = 0;
      while (count < entries.length && state.append(entries[count] as Entry)) count++;
      expect(count).to.equal(added);
      if (upToClaim) expect(state.isUpTo(claim(upToClaim[0], upToClaim[1]))).to.equal(upToClaim[2]);
    });
  }

  it("prefers the log to the view, whichever comes first", () => {
    const state = new FollowedState(5, [], "here");
    state.addFromView("hosts", "before", 3, stored("before", 1, 3));
    state.addFromView("hosts", "gone", 3, stored("gone", 1, 3));
    state.append(commit(6, 2, put("before", 6), remove("gone"), put("after", 6), remove("never")));
    state.addFromView("hosts", "after", 4, stored("after", 4, 4));
    state.addFromView("hosts", "never", 4, stored("never", 4, 4));
    state.addFromView("hosts", "kept", 2, stored("kept", 2, 2));
    state.endView();
    expect(contentsOf(state)).to.deep.equal({ before: { n: 6 }, after: { n: 6 }, kept: { n: 2 } });
  });

  it("is incomplete with a document of the view that is newer than this process's claim", () => {
    for (const [seq, isWhole] of [
      [11, true],
      [12, false],
    ] as const) {
      const state = new FollowedState(9, [], "here");
      const { checksum } = encodeDocument("hosts", "told", { document: { n: 10 }, version: 1 });
      const sums = { hosts: { count: 1, sum: hexOf(checksum) } };
      state.append({ ...commit(10, 2, put("told", 10)), sums } as Entry);
      state.addFromView("hosts", "told", seq, stored("told", 1, seq));
      state.endView();
      expect(state.difference(claim(11, 3)) === undefined).to.equal(isWhole);
    }
  });

  it("writes to the view changes after the checkpoint, and removes leftovers of dead leaders", () => {
    const state = new FollowedState(
      5,
      [
        { from: 1, claim: 4 },
        { from: 5, claim: 9 },
      ],
      "here",
    );
    for (const id of ["leftover", "anew", "right"]) {
      const seq = id === "right" ? 5 : 2;
      state.addFromView("hosts", id, seq, stored(id, seq, seq));
    }
    state.endView();
    state.append(commit(6, 2, put("anew", 6)));
    state.append(commit(7, 2, put("a", 7)));
    state.append(checkpoint(8, 2, 6));
    expect(contentsOf(state)).to.deep.equal({ right: { n: 5 }, anew: { n: 6 }, a: { n: 7 } });
    expect(state.checkpoint).to.equal(6);
    expect(Object.fromEntries(state.outcomes().get("hosts") ?? [])).to.deep.equal({
      leftover: null,
      a: checked("a", { n: 7 }),
    });
  });

  function contentsOf(state: FollowedState): object {
    return Object.fromEntries([...state.documents()].map(([, id, { document }]) => [id, document]));
  }
});

describe("a following standby", () => {
  const LEASE_TIME_MS = 200;
  const DOCUMENTS = 3_000;
  let clock: ManualClock;
  let server: DocumentServer;
  let first: TrackedStorage;
  let follows: number;

  beforeEach(() => {
    clock = new ManualClock();
    server = idealServer();
    follows = 0;
  });

  function storageOn(on: DocumentServer, keptLogMs: number): MongoStorage {
    const limits = { leaseTimeMs: LEASE_TIME_MS, safeLeaseTimeMs: 150, applyIntervalMs: 1, keptLogMs };
    return new MongoStorage({ tabletName: "registry", connect: async () => on, limits, clock });
  }

  /** Renews the first leader's lease until `ends` returns true. */
  async function lead(keptLogMs: number, ends: () => boolean): Promise<void> {
    first = new TrackedStorage(storageOn(changed(server, {}), keptLogMs));
    await first.claim({ writer: "first", address: "" });
    await first.load(() => {});
    const renew = (): void => {
      if (ends()) return;
      void first.renew();
      clock.after(10, renew);
    };
    renew();
    await first.commit(Array.from({ length: DOCUMENTS }, (_, n) => change(`h${n}`, n)));
  }

  function standBy(on: DocumentServer): { storage: MongoStorage; claimed: () => boolean } {
    const storage = storageOn(on, 0);
    let isClaimed = false;
    const onFollowing = (): void => {
      follows++;
    };
    void storage.claim({ writer: "second", address: "" }, { onFollowing }).then(() => {
      isClaimed = true;
    });
    return { storage, claimed: () => isClaimed };
  }

  async function loadedBy(storage: MongoStorage): Promise<Map<string, unknown>> {
    const documents = new Map<string, unknown>();
    let isLoaded = false;
    const loading = storage.load((_, key, { document }) => documents.set(key, document));
    void loading.finally(() => {
      isLoaded = true;
    });
    await clock.passUntil(() => isLoaded, 1_000);
    await loading;
    return documents;
  }

  const change = (key: string, n: number | undefined) => ({
    table: "hosts",
    key,
    document: n === undefined ? null : { n },
  });

  it("has the earlier state and all later changes, and reads almost nothing after its claim", async () => {
    let ends = false;
    await lead(10_000, () => ends);
    const { storage, claimed } = standBy(changed(server, {}));
    await clock.passUntil(() => follows > 0, 1_000);
    for (let n = 0; n < 20; n++) {
      await first.commit([change("new", n), change(`h${n}`, undefined)]);
      await clock.passTo(clock.monotonicMs() + 10);
    }
    ends = true;
    await clock.passUntil(claimed, 1_000);
    const loaded = await loadedBy(storage);
    expect([loaded.size, loaded.get("new")]).to.deep.equal([DOCUMENTS - 20 + 1, { n: 19 }]);
    expect(storage.documentsRead).to.be.below(10);
    expect(follows).to.equal(1);
    await storage.close({ handOver: true });
  });

  it("reads everything again when log entries were deleted before it read them", async () => {
    let ends = false;
    let isCutOff = false;
    await lead(0, () => ends);
    const { storage, claimed } = standBy(
      changed(server, {
        find: async (collection, range) => {
          if (isCutOff && range.kinds !== undefined && !range.descending) throw new LostAnswerError("cut off");
          return server.find(collection, range);
        },
      }),
    );
    await clock.passUntil(() => follows > 0, 1_000);
    isCutOff = true;
    await first.commit([change("a", 1)]);
    let commits = 1;
    const count = async (): Promise<void> => {
      commits = (await server.find("registry.log", { kinds: ["commit"], limit: 10 })).length;
    };
    await clock.passUntil(() => {
      void count();
      return commits === 0;
    }, 1_000);
    await first.commit([change("b", 2)]);
    ends = true;
    await clock.passUntil(claimed, 1_000);
    isCutOff = false;
    const loaded = await loadedBy(storage);
    expect([loaded.size, loaded.get("a"), loaded.get("b")]).to.deep.equal([DOCUMENTS + 2, { n: 1 }, { n: 2 }]);
    expect(storage.documentsRead).to.be.above(DOCUMENTS);
    expect(follows).to.equal(1);
    await storage.close({ handOver: true });
  });
});
