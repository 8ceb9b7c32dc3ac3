import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { failureOf } from "@diskmesh/csi-driver/testing";
import { eventually, mountNamespace, skipBecause, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { CsiMesh, needBlockDevices } from "./csi-mesh.js";
import { inOrder } from "./node-order.js";

const MOVES = 5;
const FILES = 20;

describe("pods that move beside a program with a mount namespace of its own", () => {
  let csi: CsiMesh;

  before(async function () {
    needBlockDevices(this);
    skipWithout(this, "unshare");
    if (spawnSync("unshare", ["--mount", "true"]).status !== 0) skipBecause(this, "it may not make mount namespaces");
    csi = await CsiMesh.start({ hosts: 2, devicesPerHost: 1 });
  });
  after(() => csi?.[Symbol.asyncDispose]());

  it("lose nothing that they wrote", async function () {
    this.timeout(600_000);
    const volumeId = await csi.create("moving");
    const written: string[] = [];
    for (let move = 0; move < MOVES; move++) {
      const order = csi.orderOn(move % 2, volumeId);
      await inOrder(order.up);
      expect(order.publishContext.isFirstAttachment).to.equal(`${move === 0}`);
      expect(
        readdirSync(order.target)
          .filter((name) => /^\d/.test(name))
          .sort(),
      ).to.deep.equal([...written].sort());
      for (const name of written) expect(readFileSync(join(order.target, name), "utf8")).to.equal(name.repeat(500));
      const other = await programWithNamespace(order.folder);
      try {
        for (let file = 0; file < FILES; file++) {
          const name = `${move}-${file}`;
          writeFileSync(join(order.target, name), name.repeat(500));
          written.push(name);
        }
        await order.unpublish();
        expect(await failureOf(order.unstage())).to.match(/mount namespace of process/);
      } finally {
        await ended(other);
      }
      await order.unstage();
      await order.detach();
    }
    await csi.remove(volumeId);
  });
});

/** Starts a program that has the mounts below a folder for as long as it runs. */
async function programWithNamespace(keep: string): Promise<ChildProcess> {
  const [command = "", ...args] = [...mountNamespace({ keep }), "sleep", "infinity"];
  const program = spawn(command, args, { stdio: "ignore" });
  await eventually(() => expect(readFileSync(`/proc/${program.pid}/comm`, "utf8")).to.equal("sleep\n"));
  return program;
}

async function ended(child: ChildProcess): Promise<void> {
  const exited = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGKILL");
  await exited;
}
