import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import * as nodeFiles from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { type FileSystem, replaceFile } from "./replace-file.js";

describe("replaceFile", () => {
  let folder: string;
  let path: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "diskmesh-atomic-"));
    path = join(folder, "file");
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  /** Wraps Node's file system; records each step and fails at the step `failing`. */
  function watched(steps: string[], failing?: string): FileSystem {
    const step = async (name: string): Promise<void> => {
      steps.push(name.replaceAll(`${folder}/`, ""));
      if (steps.at(-1) === failing) throw new Error(`no ${failing}`);
    };
    return {
      async open(name, flags, mode) {
        const what = name === folder ? "folder" : name;
        await step(`open ${what} ${flags}`);
        const handle = await nodeFiles.open(name, flags, mode);
        return {
          writeFile: (text) => step(`write ${what}`).then(() => handle.writeFile(text)),
          sync: () => step(`sync ${what}`).then(() => handle.sync()),
          close: () => handle.close(),
        };
      },
      rename: (from, to) => step(`rename ${from} ${to}`).then(() => nodeFiles.rename(from, to)),
    };
  }

  it("syncs the text before the rename, and the rename before it resolves", async () => {
    const steps: string[] = [];
    await replaceFile(path, "text", { files: watched(steps) });
    expect(steps).to.deep.equal([
      "open file.new w",
      "write file.new",
      "sync file.new",
      "rename file.new file",
      "open folder r",
      "sync folder",
    ]);
    expect(readFileSync(path, "utf8")).to.equal("text");
    expect(existsSync(`${path}.new`)).to.equal(false);
  });

  it("makes the file private to its owner unless the caller gives a mode", async () => {
    await replaceFile(path, "text");
    expect(statSync(path).mode & 0o777).to.equal(0o600);
    await replaceFile(path, "text", { mode: 0o644 });
    expect(statSync(path).mode & 0o777).to.equal(0o644 & ~process.umask());
  });

  for (const failing of ["open file.new w", "write file.new", "sync file.new", "rename file.new file"])
    it(`keeps the old file when it fails at ${failing}, and the next write reuses the leftover`, async () => {
      writeFileSync(path, "old");
      const failed = await replaceFile(path, "new", { files: watched([], failing) }).catch((error: Error) => error);
      expect(failed).to.be.instanceOf(Error).with.property("message", `no ${failing}`);
      expect(readFileSync(path, "utf8")).to.equal("old");
      await replaceFile(path, "newer");
      expect(readFileSync(path, "utf8")).to.equal("newer");
    });
});
