import { randomUUID } from "node:crypto";
import { InvalidStateError, systemClock } from "@diskmesh/domain";
import type { TabletClock } from "../clock.js";
import { CONNECTIONS_MAX, type DocumentServer, LostAnswerError, type ViewWrite } from "./document-server.js";

/** Scratch documents of probes that run: several processes may start at once. */
const COLLECTION = "tablets.probe";
/** Requests meet only when each has a connection of its own. */
const RACERS = CONNECTIONS_MAX;
/** Of all races: on a busy server many end as if it were atomic. */
const ROUNDS = 3;
/** No race starts any later: a slow server is probed less. */
const PROBE_TIME_MS_MAX = 2_000;

/** Races on one new document, and says what must not happen and did. */
type Race = (server: DocumentServer, id: string) => Promise<string | undefined>;

/** A unique index on _id is what most servers have; what goes wrong is between a condition and its write. */
const CONDITIONAL: readonly Race[] = [raceUpdates, raceReplaces, raceNewest];
const RACES: readonly Race[] = [raceInserts, raceUpserts, ...CONDITIONAL, ...CONDITIONAL];

/**
 * Races conditional writes on scratch documents, and refuses a server that lets two of them win: on it two leaders
 * could both believe that they lead.
 */
export async function probe(server: DocumentServer, clock: TabletClock = systemClock): Promise<void> {
  const prefix = `probe-${randomUUID()}`;
  const endMs = clock.monotonicMs() + PROBE_TIME_MS_MAX;
  try {
    // Opens the connections: what waits for one comes too late for a race.
    await race(() => server.get(COLLECTION, prefix));
    await refuseOutdated(server, `${prefix}:outdated`);
    for (let round = 0; round < ROUNDS; round++) {
      for (const [kind, run] of RACES.entries()) {
        if (clock.monotonicMs() >= endMs) return;
        const wrong = await run(server, `${prefix}:${round}:${kind}`);
        if (wrong !== undefined) throw unfit(server, wrong);
      }
    }
  } finally {
    await server.delete(COLLECTION, { after: prefix, below: `${prefix};` }).catch(() => {});
  }
}

/** No race: whether conditions count at all. */
async function refuseOutdated(server: DocumentServer, id: string): Promise<void> {
  await replace(server, { id, seq: 2, document: { racer: 2 } });
  const isTaken = await replace(server, { id, seq: 1, document: { racer: 1 } });
  const stored = await server.get(COLLECTION, id);
  if (isTaken || stored?._seq !== 2 || stored.racer !== 2)
    throw unfit(server, "an outdated document replaced a newer one");
  await replace(server, { id, seq: 2, document: null });
  if ((await server.get(COLLECTION, id)) === undefined)
    throw unfit(server, "an outdated delete deleted a newer document");
}

async function raceInserts(server: DocumentServer, id: string): Promise<string | undefined> {
  const won = await race((racer) => server.insert(COLLECTION, { _id: id, racer }));
  return wrongWinner(server, id, won, "inserts of one _id");
}

async function raceUpdates(server: DocumentServer, id: string): Promise<string | undefined> {
  await server.insert(COLLECTION, { _id: id, round: 0 });
  const won = await race((racer) =>
    server.update(COLLECTION, id, { round: 0 }, { set: { racer }, increment: "round" }),
  );
  return wrongWinner(server, id, won, "conditional updates");
}

async function raceReplaces(server: DocumentServer, id: string): Promise<string | undefined> {
  await replace(server, { id, seq: 0, document: {} });
  const won = await race((racer) => replace(server, { id, seq: 1, document: { racer } }));
  return wrongWinner(server, id, won, "conditional replaces");
}

/** Half of them insert, the others put something in place of nothing. */
async function raceUpserts(server: DocumentServer, id: string): Promise<string | undefined> {
  const won = await race((racer) =>
    racer % 2 === 0
      ? server.insert(COLLECTION, { _id: id, racer, _seq: 1 })
      : replace(server, { id, seq: 1, document: { racer } }),
  );
  return wrongWinner(server, id, won, "inserts and upserts of one _id");
}

async function raceNewest(server: DocumentServer, id: string): Promise<string | undefined> {
  await replace(server, { id, seq: 0, document: {} });
  await race((racer) => replace(server, { id, seq: racer + 1, document: { racer } }));
  const stored = await server.get(COLLECTION, id);
  return stored?._seq === RACERS ? undefined : "an outdated document replaced a newer one in a race";
}

async function wrongWinner(
  server: DocumentServer,
  id: string,
  won: readonly boolean[],
  what: string,
): Promise<string | undefined> {
  const winners = won.filter(Boolean).length;
  if (winners !== 1) return `of ${RACERS} racing ${what} ${winners} were accepted`;
  const stored = await server.get(COLLECTION, id);
  return stored?.racer === won.indexOf(true)
    ? undefined
    : `one of ${RACERS} racing ${what} was accepted and is not there`;
}

/** Whether it was done. */
async function replace(server: DocumentServer, write: ViewWrite): Promise<boolean> {
  const { present, refused } = await server.write(COLLECTION, [write]);
  if (refused !== undefined) throw new LostAnswerError(`writing to ${COLLECTION}: ${refused}`);
  return present.length === 0;
}

function race<T>(action: (racer: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: RACERS }, (_, racer) => action(racer)));
}

function unfit(server: DocumentServer, what: string): InvalidStateError {
  return new InvalidStateError(
    `MongoDB at ${server.name} cannot hold a tablet: ${what}; use a server whose conditional writes are atomic`,
  );
}
