import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { DomainError, InvalidStateError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { randomOf } from "../contract/random.js";
import { table } from "../documents/schema.js";
import { Tablet } from "../tablet.js";
import { openEmbeddedStorage } from "./embedded-storage.js";
import { examineFolder } from "./examine-folder.js";
import { PowerCutFiles } from "./testing/power-cut-files.js";

// Folders that 0.1.0 wrote in three lives, the last of which was stopped, or in a fourth one that was killed. The n-th
// commit wrote the document h(n % 7), deleted h((n + 3) % 7), and counted.
const FIXTURES = fileURLToPath(new URL("../../fixtures/embedded-0.1.0/", import.meta.url));
const FOLDER = "/state/registry";
const COMMITS = { stopped: 36, killed: 39 };
const DAMAGES = 600;

interface Document {
  readonly id: string;
  readonly n: number;
}

const schema = {
  hosts: table<Document>()({ key: ({ id }) => id }),
  counters: table<Document>()({ key: ({ id }) => id }),
};

function contentsOf(folder: string): Map<string, Buffer> {
  return new Map(readdirSync(join(FIXTURES, folder)).map((name) => [name, readFileSync(join(FIXTURES, folder, name))]));
}

function open(files: PowerCutFiles, journalsBytesMin = 2 ** 30): Promise<Tablet<typeof schema>> {
  const storage = openEmbeddedStorage({ folder: FOLDER, files, exclusive: false, journalsBytesMin });
  return Tablet.open({ name: "registry", schema, storage, address: "" });
}

const stateOf = (tablet: Tablet<typeof schema>) =>
  tablet.read(({ hosts, counters }) => [...hosts.entries(), ...counters.entries()].map(({ id, n }) => `${id}=${n}`));

/** Returns the documents after a number of commits. */
function stateAfter(commits: number): string[] {
  const hosts = new Map<string, number>();
  for (let n = 1; n <= commits; n++) {
    hosts.set(`h${n % 7}`, n);
    hosts.delete(`h${(n + 3) % 7}`);
  }
  return [...[...hosts].map(([id, n]) => `${id}=${n}`).sort(), `last=${commits}`];
}

describe("A folder of the first release", () => {
  for (const [kind, commits] of Object.entries(COMMITS)) {
    it(`that was ${kind} is whole, is loaded, and is continued with chained lines`, async () => {
      const contents = contentsOf(kind);
      const files = PowerCutFiles.of(FOLDER, contents);
      const examine = () => examineFolder({ folder: FOLDER, schema, files, exclusive: false, withGaps: false });
      const { problems, isWhole, documents } = await examine();
      expect([problems, isWhole, documents.length]).to.deep.equal([[], true, stateAfter(commits).length]);
      for (let start = 0; start < 3; start++) {
        const tablet = await open(files);
        expect(await stateOf(tablet)).to.deep.equal(stateAfter(commits));
        await tablet.transact(({ hosts }) => hosts.put({ id: "h9", n: start }));
        await tablet.transact(({ hosts }) => hosts.delete("h9"));
        if (start > 0) await tablet.close();
      }
      expect((await examine()).problems).to.deep.equal([]);
      for (const [name, content] of contents) expect(files.contents().get(name), name).to.deep.equal(content);
      const added = [...files.contents()].filter(([name]) => name !== "reserve" && !contents.has(name));
      for (const [name, content] of added) expect(content.toString(), name).to.match(/^[0-9a-f]{8} {"kind":"/);
    });

    it(`that was ${kind} is replaced by a chained snapshot`, async () => {
      const files = PowerCutFiles.of(FOLDER, contentsOf(kind));
      const tablet = await open(files, 1);
      await tablet.transact(({ hosts }) => hosts.delete("none"));
      await tablet.transact(({ counters }) => counters.put({ id: "last", n: commits }));
      const old = (): number =>
        [...files.contents()].filter(
          ([name, content]) => /^(journal|snapshot|end)/.test(name) && !content.includes('"kind":"'),
        ).length;
      await eventually(() => expect(old()).to.equal(0));
      await tablet.close();
      expect(await stateOf(await open(files))).to.deep.equal(stateAfter(commits));
    });

    it(`that was ${kind} has a problem for a check whenever a start refuses it`, async () => {
      const random = randomOf(4_715);
      const contents = contentsOf(kind);
      const names = [...contents.keys()];
      let refused = 0;
      for (let n = 0; n < DAMAGES; n++) {
        const [name, other] = [names[n % names.length], names[Math.floor(random() * names.length)]] as [string, string];
        const content = contents.get(name) as Buffer;
        const at = Math.floor(random() * content.length);
        const flipped = Buffer.from(content);
        flipped[at] = (flipped[at] as number) ^ (1 << Math.floor(random() * 8));
        const damaged = new Map(contents);
        if (n % 4 === 0) damaged.set(name, flipped);
        if (n % 4 === 1) damaged.set(name, content.subarray(0, at));
        if (n % 4 === 2) damaged.delete(name);
        if (n % 4 === 3) damaged.set(other, content);
        if (n % 8 === 7) damaged.set(`${other.split(".")[0]}.${String(at % 8).padStart(16, "0")}`, content);
        const start = await open(PowerCutFiles.of(FOLDER, damaged)).then(
          (tablet) => tablet.close(),
          (error: unknown) => {
            if (!(error instanceof DomainError)) throw error;
            return error;
          },
        );
        const options = { folder: FOLDER, schema, files: PowerCutFiles.of(FOLDER, damaged), exclusive: false };
        const problems = await examineFolder({ ...options, withGaps: true }).then(
          (examined) => examined.problems,
          (error: unknown) => {
            if (!(error instanceof InvalidStateError)) throw error;
            return [error.message];
          },
        );
        const where = `damage ${n} to ${name}, other ${other}, byte ${at}`;
        expect(problems.length > 0, `${where}: ${start?.message}`).to.equal(start !== undefined);
        if (start !== undefined) refused++;
      }
      expect(refused).to.be.above(DAMAGES / 5);
    });
  }

  it("is refused when its journals refer to each other in a circle", async () => {
    const contents = contentsOf("stopped");
    const [from, to] = ["journal.0000000000000004", "journal.0000000000000003"];
    contents.set(to, contents.get(from) as Buffer);
    for (const name of contents.keys()) if (name.startsWith("snapshot")) contents.delete(name);
    await rejection(open(PowerCutFiles.of(FOLDER, contents)), InvalidStateError, "is missing in the chain of journals");
  });
});
