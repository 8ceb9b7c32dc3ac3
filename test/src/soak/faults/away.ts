import { always, type Fault, LENGTHS_MS, must } from "./fault.js";

/** NATS killed, and away for a while. */
export const natsAway: Fault = {
  name: "NATS away",
  lengthMs: LENGTHS_MS.away,
  possible: always,
  targets: () => ["nats"],
  async begin({ nats }) {
    await nats.kill();
    return () => nats.start();
  },
};

/** The database killed, and away for a while. */
export const databaseAway: Fault = {
  name: "database away",
  lengthMs: LENGTHS_MS.away,
  possible: ({ store }) => {
    if (store.database !== undefined) return undefined;
    return store.name === "embedded" ? "the embedded store has no server" : "the database is not the soak's own";
  },
  targets: () => ["database"],
  async begin({ store }) {
    const database = must(store.database, "database of the soak's own");
    await database.kill();
    return () => database.start();
  },
};
