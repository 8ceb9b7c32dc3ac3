import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { DomainError, visible } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { table } from "../documents/schema.js";
import { openStorage } from "../open-storage.js";
import { type BackupHeader, backupPieces } from "./backup-file.js";
import { restoreBackup } from "./restore.js";

interface Host {
  readonly id: string;
  readonly n: number;
}

const schema = {
  hosts: table<Host>()({ key: ({ id }) => id }),
  counters: table<Host>()({ key: ({ id }) => id, onRestore: (counter, step) => ({ ...counter, n: counter.n + step }) }),
};
const HEADER: BackupHeader = {
  tabletName: "registry",
  tabletId: "c6f0b7a2-7d0c-4a55-9d5e-0d3c0e6f5b11",
  incarnation: "5f1e3d90-3c52-4a8e-8f60-5d1b0f3a7c42",
  parentIncarnations: [],
  generation: 3,
  createdAtMs: 1,
};
const host = (id: string, n: string) =>
  `{"table":"hosts","key":"${id}","version":1,"document":{"id":"${id}","n":${n}}}`;

/** Makes a backup with a valid checksum, as an attacker could. */
function backupOf(header: BackupHeader, lines: readonly string[]): string {
  const [first = ""] = [...backupPieces(header, [])].join("").split("\n");
  const text = [first, ...lines, ""].join("\n");
  const sha256 = createHash("sha256").update(text).digest("hex");
  return `${text}${JSON.stringify({ documents: lines.length, sha256 })}\n`;
}

describe("a backup with content that no diskmesh writes", () => {
  const restored = (header: BackupHeader, lines: readonly string[]) => {
    const folder = temporaryFolder();
    const file = join(folder, "backup");
    writeFileSync(file, backupOf(header, lines));
    const storage = openStorage(join(folder, "to"), "registry");
    return restoreBackup({ file, schema, storage, tabletName: "registry", replace: false });
  };

  const HEADERS: readonly (readonly [header: Partial<BackupHeader>, said: string])[] = [
    [{ tabletId: "../x" }, 'its tabletId "../x" is malformed'],
    [{ incarnation: "a b" }, 'its incarnation "a b" is malformed'],
    [{ parentIncarnations: ["ok", "\u202e"] }, 'its incarnation "\\u202e" is malformed'],
    [{ generation: 2 ** 53 - 1 }, "its generation 9007199254740991 is above"],
    [{ createdAtMs: 1e300 }, "its createdAtMs 1e+300 is not a time"],
  ];
  for (const [part, said] of HEADERS)
    it(`is refused for the header part ${visible(JSON.stringify(part))}: ${said}`, async () => {
      await rejection(restored({ ...HEADER, ...part }, []), DomainError, said);
    });

  const LINES: readonly (readonly [lines: readonly string[], said: string])[] = [
    [['{"table":"__proto__","key":"k","version":1,"document":{}}'], 'its table "__proto__"'],
    [['{"table":"constructor","key":"k","version":1,"document":{}}'], "there is no table constructor"],
    [[host("h1", "1"), host("h2", "1"), host("h1", "2")], 'the document "h1" of table hosts twice'],
    [['{"table":"hosts","key":"","version":1,"document":{"id":"","n":1}}'], "has an invalid key"],
    [[host("h1", "1e400")], "n is Infinity"],
    [[host("h1", "9007199254740993")], "n is 9007199254740992"],
    [[host("h1", '1,"n":2')], "has a field twice"],
    [['{"table":"counters","key":"c","version":1,"document":{"id":"c","n":9007199254740991}}'], "impossible number"],
  ];
  for (const [lines, said] of LINES)
    it(`is refused for the line ${lines.at(-1)}: ${said}`, async () => {
      await rejection(restored(HEADER, lines), DomainError, said);
    });

  it("is restored without such content", async () => {
    const lines = [host("h1", "9007199254740991"), host("h2", "-0.5"), host("__proto__", "1")];
    expect(await restored(HEADER, lines)).to.include({ documents: 3, tabletId: HEADER.tabletId });
  });
});
