import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { makeTablet, openStorage, Tablet, table } from "@diskmesh/tablet";
import { backupPieces } from "@diskmesh/tablet/backup-file";
import { expect } from "chai";
import { refusalOf, replacedDocuments } from "./replaced-documents.js";

interface Host {
  readonly id: string;
}

const schema = { hosts: table<Host>()({ key: ({ id }) => id }) };

describe("the comparison of a tablet with the backup that replaces it", () => {
  let tablet: { readonly storage: string; readonly name: string; readonly leaseTimeMs: number };

  beforeEach(() => {
    const storage = mkdtempSync(join(tmpdir(), "diskmesh-replaced-"));
    tablet = { storage, name: "registry", leaseTimeMs: 1_000 };
  });

  afterEach(() => rmSync(tablet.storage, { recursive: true }));

  function backupOf(...ids: readonly string[]): string {
    const header = { tabletName: "registry", tabletId: "t", incarnation: "i", parentIncarnations: [], generation: 1 };
    const documents = ids.map((id) => ({ table: "hosts", key: id, version: 1, document: { id } }));
    const file = join(tablet.storage, "backup");
    writeFileSync(file, [...backupPieces({ ...header, createdAtMs: 1 }, documents)].join(""));
    return file;
  }

  const open = () =>
    Tablet.open({ name: "registry", schema, storage: openStorage(tablet.storage, tablet.name), address: "" });

  async function store(...ids: readonly string[]): Promise<void> {
    await using opened = await open();
    await opened.transact(({ hosts }) => {
      for (const id of ids) hosts.put({ id });
    });
  }

  it("counts the documents that the backup lacks, and asks for a confirmation when these are more than half", async () => {
    await store("a", "b", "c", "d");
    const half = await replacedDocuments(backupOf("a", "b", "x", "y", "z"), tablet, schema);
    expect(half).to.deep.equal({ documents: 4, lacking: 2 });
    expect(refusalOf(half as Exclude<typeof half, string>, "it")).to.equal(undefined);
    const most = await replacedDocuments(backupOf("a", "x", "y", "z"), tablet, schema);
    expect(refusalOf(most as Exclude<typeof most, string>, "tablet registry")).to.contain(
      "lacks 3 of the 4 documents of tablet registry",
    );
  });

  it("finds nothing to lose in an empty tablet, and a reason where there is none", async () => {
    expect(await replacedDocuments(backupOf("a"), tablet, schema)).to.contain("holds no tablet");
    await makeTablet(tablet.storage, tablet.name);
    const replaced = await replacedDocuments(backupOf("a"), tablet, schema);
    expect(replaced).to.deep.equal({ documents: 0, lacking: 0 });
    expect(refusalOf(replaced as Exclude<typeof replaced, string>, "it")).to.equal(undefined);
  });

  it("is refused while a process uses the tablet", async () => {
    await using _used = await open();
    await rejection(replacedDocuments(backupOf("a"), tablet, schema), UnavailableError, "in use");
  });
});
