import { InvalidStateError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { randomOf } from "../contract/random.js";
import { CONNECTIONS_MAX, type DocumentServer, LostAnswerError } from "./document-server.js";
import { probe } from "./probe.js";
import { changed } from "./simulation/candidate.js";
import { idealServer } from "./testing/ideal-server.js";
import { racingServer } from "./testing/racing-server.js";

/** By hand with more: DISKMESH_PROBES=3000. */
const PROBES = Number(process.env.DISKMESH_PROBES ?? 100);
/** A machine that stands still for seconds leaves races out, which then find nothing. */
const STANDING_CLOCK = { monotonicMs: () => 0, after: () => () => {}, afterTurn: setImmediate };

describe("the probe", () => {
  it("accepts a server whose conditional writes are atomic, and leaves nothing behind", async () => {
    const server = idealServer();
    await probe(server);
    expect(await server.find("tablets.probe", { limit: 10 })).to.deep.equal([]);
  });

  it("is not disturbed by others at the same time", async () => {
    const server = idealServer();
    await Promise.all(Array.from({ length: 5 }, (_, i) => turns(i).then(() => probe(server))));
    expect(await server.find("tablets.probe", { limit: 10 })).to.deep.equal([]);
  });

  for (const [state, isWarm] of [
    ["cold", false],
    ["warm", true],
  ] as const) {
    // Within 40 turns, three updates of 20 racers miss about as many as they missed of a FerretDB 1.24 on one core.
    for (const spreadTurns of [40, 80]) {
      it(`misses no server that reads, waits and writes: ${PROBES} ${state}, within ${spreadTurns} turns`, async function () {
        this.timeout(30_000 + PROBES * 200);
        const random = randomOf(spreadTurns);
        let misses = 0;
        for (let i = 0; i < PROBES; i++) {
          const server = racingServer({ random, spreadTurns, isWarm });
          const error = await probe(server, STANDING_CLOCK).catch((thrown) => thrown);
          if (error === undefined) misses++;
          else expect(error).to.be.instanceOf(InvalidStateError);
        }
        expect(misses).to.equal(0);
      });
    }
  }

  it("starts no race after two seconds", async () => {
    let nowMs = 0;
    let updates = 0;
    const ideal = idealServer();
    const server = changed(ideal, {
      update: (...args) => {
        updates++;
        nowMs += 50;
        return ideal.update(...args);
      },
    });
    await probe(server, { monotonicMs: () => nowMs, after: () => () => {}, afterTurn: setImmediate });
    expect(updates).to.equal(2 * CONNECTIONS_MAX);
  });

  it("refuses a server that lets two racing inserts win", async () => {
    await expectRefusal({ insert: async () => true }, `racing inserts of one _id ${CONNECTIONS_MAX} were accepted`);
  });

  it("refuses a server that lets an insert and an upsert win", async () => {
    const lying = idealServer();
    const write: DocumentServer["write"] = async (collection, writes) => {
      const result = await lying.write(collection, writes);
      return writes[0]?.id.endsWith(":1") ? { present: [] } : result;
    };
    await expectRefusal({ ...pick(lying), write }, "racing inserts and upserts of one _id");
  });

  it("refuses a server that lets two racing updates win", async () => {
    const lying = idealServer();
    const update: DocumentServer["update"] = async (collection, id, _, change) =>
      lying.update(collection, id, {}, change);
    await expectRefusal({ ...pick(lying), update }, `racing conditional updates ${CONNECTIONS_MAX} were accepted`);
  });

  it("refuses a server that forgets an update", async () => {
    let updates = 0;
    const update = async (): Promise<boolean> => updates++ === 0;
    await expectRefusal({ update }, "was accepted and is not there");
  });

  it("refuses a server on which outdated writes win", async () => {
    const lying = idealServer();
    const write: DocumentServer["write"] = (collection, writes) =>
      lying.write(
        collection,
        writes.map((one) => ({ ...one, seq: one.document === null ? one.seq + 1 : one.seq })),
      );
    await expectRefusal({ ...pick(lying), write }, "an outdated delete");
    const blind = idealServer();
    const overwrite: DocumentServer["write"] = async (collection, [one]) => {
      await blind.delete(collection, {});
      return blind.write(collection, one ? [one] : []);
    };
    await expectRefusal({ ...pick(blind), write: overwrite }, "an outdated document");
  });

  it("does not judge a server that refuses its writes for now", async () => {
    const write: DocumentServer["write"] = async () => ({ present: [], refused: "too many requests" });
    const error = await rejection(probe(changed(idealServer(), { write })), LostAnswerError);
    expect(error.message).to.contain("too many requests");
  });

  async function expectRefusal(operations: Partial<DocumentServer>, reason: string): Promise<void> {
    const error = await rejection(probe(changed(idealServer(), operations)), InvalidStateError);
    expect(error.message).to.contain(reason).and.to.contain("MongoDB at simulation");
  }
});

/** The operations of one server, for another that differs from it in some. */
function pick(server: DocumentServer): Partial<DocumentServer> {
  const { name: _, ...operations } = changed(server, {});
  return operations;
}

async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}
