import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { rejection } from "@diskmesh/domain/testing";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { MeshLayout } from "./layout.js";
import { StateFolder } from "./state-folder.js";

describe("the state folder", () => {
  let stateFolder: string;
  beforeEach(() => {
    stateFolder = join(temporaryFolder(), "with space", ".diskmesh");
  });

  async function openAndClose(fresh = false, folder = stateFolder): Promise<void> {
    await using _state = await StateFolder.open(new MeshLayout(folder, 7000), { fresh });
  }

  it("is created, private, and found again", async () => {
    await openAndClose();
    writeFileSync(join(stateFolder, "data.txt"), "kept");
    await openAndClose();
    expect(readFileSync(join(stateFolder, "data.txt"), "utf8")).to.equal("kept");
    expect(statSync(stateFolder).mode & 0o777).to.equal(0o700);
  });

  it("may be a link to a folder", async () => {
    const target = temporaryFolder();
    const link = join(temporaryFolder(), ".diskmesh");
    symlinkSync(target, link);
    await openAndClose(false, link);
    expect(existsSync(join(target, "mesh.json"))).to.equal(true);
  });

  it("is opened by one launcher at a time", async () => {
    await using _state = await StateFolder.open(new MeshLayout(stateFolder, 7000), { fresh: false });
    writeFileSync(join(stateFolder, "data.txt"), "kept");
    for (const fresh of [false, true])
      await rejection(openAndClose(fresh), Error, `${stateFolder}" is in use by process ${process.pid}`);
    expect(readFileSync(join(stateFolder, "data.txt"), "utf8")).to.equal("kept");
  });

  it("is created anew under the lock, so that no other launcher comes in between", async () => {
    await openAndClose();
    await using _state = await StateFolder.open(new MeshLayout(stateFolder, 7000), { fresh: true });
    await rejection(openAndClose(), Error, "is in use by process");
  });

  const corruptions: [string, () => void][] = [
    ["a file in its place", () => writeFileSync(stateFolder, "x")],
    ["garbage in endpoints.json", () => writeFileSync(join(madeFolder(), "endpoints.json"), "{")],
    ["an array in endpoints.json", () => writeFileSync(join(madeFolder(), "endpoints.json"), "[]")],
    ["garbage in mesh.json", () => writeFileSync(join(madeFolder(), "mesh.json"), "\0\0")],
    ["another format", () => writeFileSync(join(madeFolder(), "mesh.json"), '{"format":99}')],
    ["a file where logs belong", () => writeFileSync(join(madeFolder(), "logs"), "x")],
    ["a folder where endpoints.json belongs", () => mkdirSync(join(madeFolder(), "endpoints.json"))],
  ];
  for (const [what, corrupt] of corruptions)
    it(`with ${what} is refused in one line that names --fresh, which repairs it`, async () => {
      mkdirSync(join(stateFolder, ".."), { recursive: true });
      corrupt();
      const { message } = await rejection(openAndClose());
      expect(message).to.include(stateFolder).and.include("--fresh").and.not.include("\n");
      await openAndClose(true);
      await openAndClose();
    });

  it("is not deleted by --fresh when it holds no mesh's state", async () => {
    const precious = temporaryFolder();
    writeFileSync(join(precious, "thesis.txt"), "years of work");
    await rejection(openAndClose(true, precious), Error, "does not look like the state of a mesh");
    expect(existsSync(join(precious, "thesis.txt"))).to.equal(true);
  });

  function madeFolder(): string {
    mkdirSync(stateFolder, { recursive: true });
    return stateFolder;
  }
});
