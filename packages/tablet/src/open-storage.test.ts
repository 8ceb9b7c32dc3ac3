import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InvalidArgumentError, NotImplementedError } from "@diskmesh/domain";
import { expect } from "chai";
import { databaseName, openEventLog, openStorage } from "./open-storage.js";

describe("openStorage", () => {
  it("gives each tablet and each event log its own folder under one path", async () => {
    const folder = await mkdtemp(join(tmpdir(), "diskmesh-open-"));
    for (const name of ["registry", "director"]) {
      const storage = openStorage(folder, name);
      expect((await storage.claim({ writer: "writer", address: "" })).generation).to.equal(1);
      const log = openEventLog(folder, name);
      await log.append("task-1", ["line"]);
      await Promise.all([storage.close({ handOver: true }), log.close()]);
    }
    expect(await readdir(folder)).to.have.members(["registry", "registry-events", "director", "director-events"]);
    await rm(folder, { recursive: true });
  });

  it("refuses other engines without repeating the password in the address", () => {
    expect(() => openStorage("postgres://user:secret@host/db", "registry"))
      .to.throw(NotImplementedError, "postgres://... is not supported")
      .with.property("message")
      .that.does.not.contain("secret");
  });

  it("names a database by its location, without user and password, and a folder not at all", () => {
    const address = "mongodb://user:secret@db-1:27017,db-2:27017/fleet?replicaSet=rs0";
    expect(databaseName(address)).to.equal("MongoDB at db-1:27017,db-2:27017/fleet");
    expect(databaseName("mongodb+srv://db.example/fleet")).to.equal("MongoDB at db.example/fleet");
    expect(databaseName("/var/lib/diskmesh")).to.equal(undefined);
  });

  it("refuses tablet names that would lead to another folder or database", () => {
    for (const name of ["", "..", "../director", "a/b", "A", "-a"]) {
      expect(() => openStorage("/nowhere", name), name).to.throw(InvalidArgumentError);
    }
    expect(() => openStorage("", "registry")).to.throw(InvalidArgumentError);
  });
});
