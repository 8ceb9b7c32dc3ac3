import { randomUUID } from "node:crypto";
import { InvalidStateError } from "@diskmesh/domain";
import type { DocumentServer, ViewWrite } from "./document-server.js";

/** Scratch documents of probes that run: several processes may start at once. */
const COLLECTION = "tablets.probe";
const RACERS = 20;
const ROUNDS = 3;

/**
 * Races conditional writes on scratch documents, and refuses a server that lets two of them win: on it two leaders
 * could both believe that they lead.
 */
export async function probe(server: DocumentServer): Promise<void> {
  const prefix = `probe-${randomUUID()}`;
  try {
    await probeInserts(server, `${prefix}:race`);
    for (let round = 0; round < ROUNDS; round++) await probeUpdates(server, `${prefix}:race`, round);
    await probeReplaces(server, `${prefix}:view`);
  } finally {
    await server.delete(COLLECTION, { after: prefix, below: `${prefix};` }).catch(() => {});
  }
}

async function probeInserts(server: DocumentServer, id: string): Promise<void> {
  const inserted = await race((racer) => server.insert(COLLECTION, { _id: id, racer, round: 0 }));
  const winners = inserted.filter(Boolean).length;
  if (winners !== 1) throw unfit(server, `of ${RACERS} racing inserts of one _id ${winners} were accepted`);
}

async function probeUpdates(server: DocumentServer, id: string, round: number): Promise<void> {
  const updated = await race((racer) =>
    server.update(COLLECTION, id, { round }, { set: { racer }, increment: "round" }),
  );
  const winners = updated.filter(Boolean).length;
  const stored = await server.get(COLLECTION, id);
  const storedWinner = typeof stored?.racer === "number" && updated[stored.racer];
  if (winners !== 1) throw unfit(server, `of ${RACERS} racing conditional updates ${winners} were accepted`);
  if (!storedWinner || stored.round !== round + 1)
    throw unfit(server, "a conditional update that it accepted is not there");
}

async function probeReplaces(server: DocumentServer, id: string): Promise<void> {
  const write = (seq: number): ViewWrite => ({ id, seq, document: { racer: seq } });
  await race((racer) => server.write(COLLECTION, [write(racer)]));
  // Whoever raced to insert first: from then on only higher numbers may have replaced it.
  await server.write(COLLECTION, [write(RACERS)]);
  const late = await race((racer) => server.write(COLLECTION, [write(racer)]));
  const stored = await server.get(COLLECTION, id);
  if (stored?._seq !== RACERS || stored.racer !== RACERS || late.some(({ present }) => present.length !== 1)) {
    throw unfit(server, "an outdated document replaced a newer one");
  }
  await server.write(COLLECTION, [{ id, seq: RACERS, document: null }]);
  if ((await server.get(COLLECTION, id)) === undefined)
    throw unfit(server, "an outdated delete deleted a newer document");
}

function race<T>(action: (racer: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: RACERS }, (_, racer) => action(racer)));
}

function unfit(server: DocumentServer, what: string): InvalidStateError {
  return new InvalidStateError(
    `MongoDB at ${server.name} cannot hold a tablet: ${what}; use a server whose conditional writes are atomic`,
  );
}
