import { InvalidStateError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { CONNECTIONS_MAX, type DocumentServer, LostAnswerError } from "./document-server.js";
import { probe } from "./probe.js";
import { changed } from "./simulation/candidate.js";
import { idealServer } from "./testing/ideal-server.js";

describe("the probe", () => {
  it("accepts a server with atomic conditional writes, also beside other probes, and leaves nothing behind", async () => {
    const server = idealServer();
    await Promise.all(Array.from({ length: 5 }, () => probe(server)));
    expect(await server.find("tablets.probe", { limit: 10 })).to.deep.equal([]);
  });

  it("refuses a server that inserts two documents with one _id", () =>
    expectRefusal(() => ({ insert: async () => true }), "two documents with one _id"));

  it("refuses a server that ignores the condition of an update", () =>
    expectRefusal(
      (ideal) => ({ update: (collection, id, _, change) => ideal.update(collection, id, {}, change) }),
      "that its condition excludes",
    ));

  it("refuses a server that reads, waits and writes", () =>
    expectRefusal(
      (ideal) => ({
        update: async (collection, id, where, change) => {
          const stored = await ideal.get(collection, id);
          if (stored?.round !== where.round) return false;
          await new Promise((resolve) => setImmediate(resolve));
          return ideal.update(collection, id, {}, change);
        },
      }),
      `racing conditional updates ${CONNECTIONS_MAX} were accepted`,
    ));

  it("refuses a server that forgets an update", () => {
    let updates = 0;
    return expectRefusal(() => ({ update: async () => updates++ === 1 }), "was accepted and is not there");
  });

  it("refuses a server on which an outdated document replaces a newer one", () =>
    expectRefusal(
      (ideal) => ({
        write: async (collection, writes) => {
          await ideal.delete(collection, {});
          return ideal.write(collection, writes);
        },
      }),
      "an outdated document replaced a newer one",
    ));

  it("refuses a server on which an outdated delete wins", () =>
    expectRefusal(
      (ideal) => ({
        write: (collection, writes) =>
          ideal.write(
            collection,
            writes.map((one) => ({ ...one, seq: one.document === null ? one.seq + 1 : one.seq })),
          ),
      }),
      "an outdated delete",
    ));

  it("does not judge a server that refuses its writes temporarily", async () => {
    const write: DocumentServer["write"] = async () => ({ present: [], refused: "too many requests" });
    await rejection(probe(changed(idealServer(), { write })), LostAnswerError, "too many requests");
  });
});

async function expectRefusal(
  operations: (ideal: DocumentServer) => Partial<DocumentServer>,
  reason: string,
): Promise<void> {
  const ideal = idealServer();
  const error = await rejection(probe(changed(ideal, operations(ideal))), InvalidStateError);
  expect(error.message).to.contain(reason).and.to.contain("MongoDB at simulation");
}
