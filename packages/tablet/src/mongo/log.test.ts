import { systemClock, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import type { DocumentServer, StoredDocument } from "./document-server.js";
import { TabletLog } from "./log.js";
import { RetryPolicy } from "./retry-policy.js";
import { changed } from "./simulation/candidate.js";
import { idealServer } from "./testing/ideal-server.js";

const GIVE_UP_AFTER_MS = 500;
/** More attempts than the retry delays permit within the time limit. */
const TRIES_MAX = 100;

describe("TabletLog", () => {
  function logOn(server: DocumentServer): TabletLog {
    const { signal } = new AbortController();
    const retryPolicy = new RetryPolicy({
      clock: systemClock,
      signal,
      serverName: "db-1",
      giveUpAfterMs: GIVE_UP_AFTER_MS,
    });
    return new TabletLog({ server, tabletName: "registry", retryPolicy, isOurs: () => true });
  }

  /** Wraps a server whose primary has stored the entry, but whose majority shows it only after this number of reads. */
  function lagging(looks: number): { server: DocumentServer; tries(): number } {
    const ideal = idealServer();
    let [tries, left] = [0, looks];
    let written: StoredDocument | undefined;
    const server = changed(ideal, {
      insert: async (_, document) => {
        if (++tries > TRIES_MAX) throw new Error("it is asked without end");
        if (written !== undefined) return false;
        written = document;
        // Simulates a primary that stored the entry and failed before its answer arrived. The repeated insert finds the
        // id taken.
        return false;
      },
      get: async () => (left-- > 0 ? undefined : written),
      find: async () => (left < 0 && written !== undefined ? [written] : []),
    });
    return { server, tries: () => tries };
  }

  it("waits, with pauses, for a majority to show the entry that has its number", async () => {
    const { server, tries } = lagging(3);
    expect((await logOn(server).claim("w", "127.0.0.1:1"))?.generation).to.equal(1);
    expect(tries()).to.equal(4);
  });

  it("gives up with the reason when no majority ever shows it", async () => {
    const { server, tries } = lagging(Number.POSITIVE_INFINITY);
    const error = await rejection(logOn(server).claim("w", "127.0.0.1:1"));
    expect(error).to.be.instanceOf(UnavailableError).and.to.include({ outcome: "unknown" });
    expect(error.message)
      .to.contain("db-1 has given no valid answer for 500 ms")
      .and.to.contain("number 1 of registry.log is taken");
    expect(tries()).to.be.within(2, TRIES_MAX);
  });
});
