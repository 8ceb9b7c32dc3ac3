import { randomUUID } from "node:crypto";
import { InvalidStateError } from "@diskmesh/domain";
import { CONNECTIONS_MAX, type DocumentServer, LostAnswerError, type ViewWrite } from "./document-server.js";

/** Collection of the probe's scratch documents. Several processes may probe at the same time. */
const COLLECTION = "tablets.probe";

/**
 * Tests conditional writes on scratch documents. Rejects a server that accepts two conflicting writes, because two
 * processes could then both believe that they lead.
 */
export async function probe(server: DocumentServer): Promise<void> {
  const id = `probe-${randomUUID()}`;
  try {
    const wrong = (await wrongAlone(server, `${id}:alone`)) ?? (await wrongInRace(server, `${id}:race`));
    if (wrong === undefined) return;
    throw new InvalidStateError(
      `MongoDB at ${server.name} cannot hold a tablet: ${wrong}; use a server whose conditional writes are atomic`,
    );
  } finally {
    await server.delete(COLLECTION, { after: id, below: `${id};` }).catch(() => {});
  }
}

/** Returns the condition that a sequence of writes violated; undefined when all held. */
async function wrongAlone(server: DocumentServer, id: string): Promise<string | undefined> {
  await replace(server, { id, seq: 2, document: { round: 2 } });
  if (await server.insert(COLLECTION, { _id: id })) return "two documents with one _id were inserted";
  if (await update(server, id, 1)) return "an update changed a document that its condition excludes";
  const isTaken = await replace(server, { id, seq: 1, document: { round: 1 } });
  const stored = await server.get(COLLECTION, id);
  if (isTaken || stored?._seq !== 2 || stored.round !== 2) return "an outdated document replaced a newer one";
  await replace(server, { id, seq: 2, document: null });
  if ((await server.get(COLLECTION, id)) === undefined) return "an outdated delete deleted a newer document";
  return undefined;
}

/** Returns the violation found by concurrent conditional updates of one document, each on its own connection. */
async function wrongInRace(server: DocumentServer, id: string): Promise<string | undefined> {
  await server.insert(COLLECTION, { _id: id, round: 0 });
  // Opens the connections first, because an update that waits for its connection would miss the race.
  await Promise.all(racers().map(() => server.get(COLLECTION, id)));
  const won = await Promise.all(racers().map((racer) => update(server, id, 0, racer)));
  const winners = won.filter(Boolean).length;
  if (winners !== 1) return `of ${CONNECTIONS_MAX} racing conditional updates ${winners} were accepted`;
  const stored = await server.get(COLLECTION, id);
  return stored?.racer === won.indexOf(true) ? undefined : "a conditional update was accepted and is not there";
}

function racers(): number[] {
  return Array.from({ length: CONNECTIONS_MAX }, (_, racer) => racer);
}

function update(server: DocumentServer, id: string, round: number, racer = 0): Promise<boolean> {
  return server.update(COLLECTION, id, { round }, { set: { racer }, increment: "round" });
}

async function replace(server: DocumentServer, write: ViewWrite): Promise<boolean> {
  const { present, refused } = await server.write(COLLECTION, [write]);
  if (refused !== undefined) throw new LostAnswerError(`writing to ${COLLECTION}: ${refused}`);
  return present.length === 0;
}
