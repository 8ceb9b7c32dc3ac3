import { InvalidArgumentError, InvalidStateError, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, freePort, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import type { Db } from "mongodb";
import { collectionsOf } from "./collections.js";
import { connectToMongo } from "./driver-server.js";
import {
  type DocumentDatabase,
  documentDatabase,
  hasJavaServer,
  startJavaServer,
} from "./testing/document-database.js";
import { databaseUrl, withDatabase } from "./testing/test-location.js";

const DATABASE = "test_collections";

/** Collection in which mongos stores the shard keys of collections. */
const config = (database: Db) => database.client.db("config").collection<{ _id: string; key: object }>("collections");

async function shard(database: Db, key: object): Promise<void> {
  await database.createCollection("t.log");
  await config(database).insertOne({ _id: `${DATABASE}.t.log`, key });
}

describe("connecting to MongoDB", () => {
  it("reports which server is unreachable, without the password", async () => {
    const port = await freePort();
    const address = `127.0.0.1:${port}/state`;
    // Repeated, because the driver may notice the refusal only after its timeout.
    const error = await eventually(() =>
      rejection(
        connectToMongo(`mongodb://user:secret@${address}?serverSelectionTimeoutMS=200`),
        UnavailableError,
        "ECONNREFUSED",
      ),
    );
    expect(error.message).to.contain(`${address} cannot be reached`);
    expect(error.message).to.not.contain("secret").and.to.not.contain("user:");
  });

  it("reports a malformed address, without the password", async () => {
    for (const url of [
      "mongodb://user:secret@",
      "mongodb://user:sec/ret@host/db",
      "mongodb://h/?secret=1",
      "mongodb://u:s%ecret@h",
    ]) {
      const error = await rejection(connectToMongo(url), InvalidArgumentError);
      expect(error.message)
        .to.contain("malformed")
        .and.to.not.match(/user:|sec\/ret|s%ecret|secret@/);
    }
  });

  const options: readonly [string, string | undefined][] = [
    ["retryWrites=true&w=majority", "retryWrites"],
    ["w=1", "sets w, but a tablet needs"],
    ["readPreference=secondaryPreferred", "readPreference"],
    ["journal=false", "journal"],
    ["maxPoolSize=500", "maxPoolSize"],
    ["timeoutMS=1", "timeoutMS"],
    ["promoteLongs=false", "promoteLongs"],
    ["RETRYREADS=TRUE", "RETRYREADS"],
    ["retryWrites=false&w=majority&readConcernLevel=majority&appName=x", undefined],
  ];
  for (const [text, refused] of options) {
    it(`with ${text} in the address: ${refused === undefined ? "accepted" : "refused by name"}`, async () => {
      const error = await rejection(
        connectToMongo(`mongodb://user:secret@127.0.0.1:1/state?serverSelectionTimeoutMS=200&${text}`),
      );
      expect(error).to.be.instanceOf(refused === undefined ? UnavailableError : InvalidArgumentError);
      expect(error.message)
        .to.contain(refused ?? "cannot be reached")
        .and.to.not.contain("secret");
    });
  }

  describe("to a running server", () => {
    let server: DocumentDatabase;

    before(async function () {
      const found = await documentDatabase();
      if (typeof found === "string") return skipBecause(this, found);
      server = found;
    });

    it("as a replica set that it is not part of names the set", async () => {
      const url = `${server.url}/state?replicaSet=rs7&serverSelectionTimeoutMS=500`;
      // Repeated, because the server may answer the driver only after its timeout.
      await eventually(() =>
        rejection(connectToMongo(url), UnavailableError, /no server of replica set rs7.*leave it out/),
      );
    });
  });

  describe("to a server with collections (none capped, collated, expiring or views: the Java server makes none)", () => {
    let url: string;

    before(async function () {
      const found = await documentDatabase();
      if (typeof found === "string") return skipBecause(this, found);
      url = databaseUrl(found.url, DATABASE);
    });

    afterEach(async () => {
      if (url === undefined) return;
      await withDatabase(url, async (database) => {
        await database.dropDatabase();
        await config(database).deleteMany({ _id: /^test_collections\./ });
      });
    });

    const made: readonly [string, (database: Db) => Promise<unknown>, string | undefined][] = [
      ["without options", (database) => database.createCollection("t.log"), undefined],
      [
        "with an index that is not unique",
        (database) => database.collection("t.hosts").createIndex({ state: 1 }),
        undefined,
      ],
      ["sharded by _id", (database) => shard(database, { _id: 1 }), undefined],
      ["sharded by something else", (database) => shard(database, { hostId: 1 }), "sharded by"],
    ];
    for (const [how, make, refused] of made) {
      it(`${how}: ${refused === undefined ? "accepted" : "refused by name"}`, async () => {
        await withDatabase(url, make);
        const connecting = connectToMongo(url, collectionsOf("t", undefined));
        if (refused === undefined) await (await connecting).close();
        else await rejection(connecting, InvalidStateError, new RegExp(refused));
      });
    }
  });

  describe("to a server that is too old", () => {
    let old: DocumentDatabase;

    before(async function () {
      if (!hasJavaServer()) return skipBecause(this, "java, javac and mvn are not all on PATH");
      old = await startJavaServer("old");
    });

    after(() => old?.process?.kill());

    it("is refused as too old, with its address", async () => {
      // Repeated, because the server may answer the driver only after its timeout.
      const error = await eventually(() =>
        rejection(connectToMongo(`${old.url}/state?serverSelectionTimeoutMS=2000`), InvalidStateError),
      );
      expect(error.message).to.contain("is too old").and.to.contain("/state");
    });
  });
});
