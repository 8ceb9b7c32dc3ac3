import { InvalidArgumentError, InvalidStateError, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, freePort, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import type { DocumentServer } from "./document-server.js";
import { connectToMongo } from "./driver-server.js";
import { probe } from "./probe.js";
import { changed } from "./simulation/candidate.js";
import {
  type DocumentDatabase,
  documentDatabase,
  hasJavaServer,
  startJavaServer,
} from "./testing/document-database.js";
import { idealServer } from "./testing/ideal-server.js";

describe("connecting to MongoDB", () => {
  it("says which server cannot be reached, without the password", async () => {
    const port = await freePort();
    const address = `127.0.0.1:${port}/state`;
    const error = await rejection(
      connectToMongo(`mongodb://user:secret@${address}?serverSelectionTimeoutMS=200`),
      UnavailableError,
    );
    expect(error.message).to.contain(`${address} cannot be reached`).and.to.contain("ECONNREFUSED");
    expect(error.message).to.not.contain("secret").and.to.not.contain("user:");
  });

  it("says that an address is malformed, without the password", async () => {
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
    ["w=1", "w than majority"],
    ["readPreference=secondaryPreferred", "readPreference"],
    ["journal=false", "journal"],
    ["maxPoolSize=500", "maxPoolSize"],
    ["timeoutMS=1", "timeoutMS"],
    ["promoteLongs=false", "promoteLongs"],
    ["RETRYREADS=TRUE", "RETRYREADS"],
    ["retryWrites=false&w=majority&readConcernLevel=majority&appName=x", undefined],
  ];
  for (const [text, refused] of options) {
    it(`an address with ${text} -> ${refused === undefined ? "taken" : "refused by name"}`, async () => {
      const error = await rejection(
        connectToMongo(`mongodb://user:secret@127.0.0.1:1/state?serverSelectionTimeoutMS=200&${text}`),
      );
      expect(error).to.be.instanceOf(refused === undefined ? UnavailableError : InvalidArgumentError);
      expect(error.message)
        .to.contain(refused ?? "cannot be reached")
        .and.to.not.contain("secret");
    });
  }

  describe("to a server that runs", () => {
    let server: DocumentDatabase;

    before(async function () {
      this.timeout(400_000);
      const found = await documentDatabase();
      if (typeof found === "string") return skipBecause(this, found);
      server = found;
    });

    it("as one of a replica set that it is not -> names the set", async () => {
      const url = `${server.url}/state?replicaSet=rs7&serverSelectionTimeoutMS=500`;
      // As soon as the driver has heard from the server within its time.
      await eventually(() =>
        rejection(connectToMongo(url), UnavailableError, /no server of replica set rs7.*leave it out/),
      );
    });
  });

  describe("to a server that is too old", () => {
    let old: DocumentDatabase;

    before(async function () {
      this.timeout(400_000);
      if (!hasJavaServer()) return skipBecause(this, "java and mvn are not on PATH");
      old = await startJavaServer("old");
    });

    after(() => old?.process?.kill());

    it("says so", async () => {
      const error = await rejection(
        connectToMongo(`${old.url}/state?serverSelectionTimeoutMS=2000`),
        InvalidStateError,
      );
      expect(error.message).to.contain("is too old").and.to.contain("/state");
    });
  });
});

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

  it("refuses a server that lets two racing inserts win", async () => {
    await expectRefusal({ insert: async () => true }, "racing inserts of one _id 20 were accepted");
  });

  it("refuses a server that lets two racing updates win", async () => {
    const lying = idealServer();
    const update: DocumentServer["update"] = async (collection, id, _, change) =>
      lying.update(collection, id, {}, change);
    await expectRefusal({ ...pick(lying), update }, "racing conditional updates 20 were accepted");
  });

  it("refuses a server that forgets an update", async () => {
    let updates = 0;
    const update = async (): Promise<boolean> => updates++ === 0;
    await expectRefusal({ update }, "that it accepted is not there");
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
