import { existsSync, mkdirSync, readdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { AlreadyExistsError, InvalidStateError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { table } from "./documents/schema.js";
import { makeTablet } from "./make-tablet.js";
import { documentDatabase } from "./mongo/testing/document-database.js";
import { databaseUrl, newTabletName, removeTablet } from "./mongo/testing/test-location.js";
import { openStorage } from "./open-storage.js";
import { Tablet } from "./tablet.js";

interface Host {
  readonly id: string;
}

const schema = { hosts: table<Host>()({ key: ({ id }) => id }) };
const LEASE = { leaseTimeMs: 3_000, safeLeaseTimeMs: 2_500 };

describe("a tablet of an installation", () => {
  const name = newTabletName();
  let folder: string;
  let database: string | undefined;

  before(async () => {
    const found = await documentDatabase();
    if (typeof found !== "string") database = databaseUrl(found.url);
  });
  beforeEach(() => {
    folder = join(temporaryFolder(), "state");
  });
  afterEach(async () => {
    if (database !== undefined) await removeTablet(database, name);
  });

  const start = (url: string) =>
    Tablet.open({ name, schema, storage: openStorage(url, name, { mongo: LEASE }), address: "", expects: "a tablet" });
  const storages = () => [folder, ...(database === undefined ? [] : [database])];

  it("is not made by a start, which leaves no trace and names the command that makes it", async () => {
    for (const url of storages()) {
      const { message } = await rejection(start(url), InvalidStateError);
      expect(message).to.contain("holds no tablet").and.to.contain("`diskmesh init SERVICE --config CONFIG`");
      expect(message).to.contain(url === folder ? join(folder, name) : `tablet ${name} in MongoDB at`);
    }
    expect(existsSync(folder)).to.equal(false);
  });

  it("is made once, and serves", async () => {
    for (const url of storages()) {
      const { tabletId } = await makeTablet(url, name);
      await rejection(makeTablet(url, name), AlreadyExistsError);
      const tablet = await start(url);
      expect(tablet.id).to.equal(tabletId);
      await tablet.transact(({ hosts }) => hosts.put({ id: "h" }));
      await tablet.close();
      await rejection(makeTablet(url, name), AlreadyExistsError);
      await using again = await start(url);
      expect(await again.read(({ hosts }) => hosts.has("h"))).to.equal(true);
      await rejection(makeTablet(url, name), AlreadyExistsError);
    }
  });

  it("is not made in a folder where a restore left another one, nor taken for new after its files were lost", async () => {
    await makeTablet(folder, name);
    const own = join(folder, name);
    renameSync(own, `${own}.replaced-1`);
    await rejection(makeTablet(folder, name), InvalidStateError, `${own}.replaced-1 beside it`);
    await rejection(start(folder), InvalidStateError, `${own}.replaced-1 beside it`);
    mkdirSync(own);
    await rejection(start(folder), InvalidStateError, `${own}.replaced-1 beside it`);
    expect(readdirSync(own)).to.deep.equal([]);
  });
});
