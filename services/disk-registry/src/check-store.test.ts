import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { SharedRegistry } from "./testing/shared-registry.js";

const CHECK = fileURLToPath(new URL("./check-store.js", import.meta.url));

describe("a check of the registry's folder", () => {
  const fleet = SharedRegistry.forAllTests();

  it("prints the sum of its documents, and salvages a state with gaps only when that is asked for", async () => {
    const folder = temporaryFolder();
    await fleet.startOwn({ tablet: { storage: folder } });
    const { process: registry } = fleet.registry;
    await fleet.readyAgent("h1", ["d1"]);
    await registry.restart();
    await fleet.createDisk("x");
    await registry.stop();
    const config = join(folder, "config.yaml");
    // Released programs do not accept `tuning`, which only tests set.
    writeFileSync(config, JSON.stringify({ ...fleet.registry.config, tuning: undefined }));
    const check = (...args: string[]) => {
      const { status, stdout, stderr } = spawnSync(process.execPath, [CHECK, "--config", config, ...args]);
      return { status, said: `${stdout}${stderr}` };
    };
    const [whole, gapped] = [join(folder, "whole.backup"), join(folder, "gapped.backup")];

    const { status, said } = check();
    expect(status, said).to.equal(0);
    const [, found] = /: (\d+ documents with the sum [0-9a-f]{16}), and the store is whole/.exec(said) ?? [];
    expect(said).to.contain(found);
    expect(check("--salvage", whole)).to.include({ status: 0 });
    expect(check("--backup", whole).said).to.contain(`${found}, and the backup ${whole} is whole`);

    const [first] = readdirSync(join(folder, "registry")).filter((name) => name.startsWith("journal."));
    rmSync(join(folder, "registry", first as string));
    expect(check().said).to.contain(`${first} is missing`);
    expect(check().status).to.equal(1);
    const refused = check("--salvage", gapped);
    expect(refused.said).to.contain(`${first} is missing`).and.to.contain("Nothing was written");
    expect(refused.status).to.equal(1);
    expect(existsSync(gapped)).to.equal(false);
    const salvaged = check("--salvage", gapped, "--with-gaps");
    expect(salvaged.said).to.contain("a state with gaps").and.to.contain(`they are in ${gapped}`);
    expect(salvaged.status).to.equal(0);
    expect(check("--backup", gapped).status).to.equal(0);
  });
});
