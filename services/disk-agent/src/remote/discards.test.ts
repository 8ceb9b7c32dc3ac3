import { randomBytes } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { endDaemons } from "../end-sessions.js";
import { NbdClient } from "../nbd/client.js";
import { SIZE_BYTES, TwoAgents } from "../testing/two-agents.js";

const RANGE_BYTES = 65_536;

for (const engine of ["node", "qemu"] as const)
  describe(`a device of another host with the ${engine} engine`, () => {
    before(function () {
      if (engine === "qemu") skipWithout(this, "qemu-storage-daemon");
    });
    const agents = TwoAgents.forAllTests({ engine, remoteIoTimeoutMs: 60_000 });
    after(async () => {
      if (agents.one !== undefined) await endDaemons(agents.one.baseFolder);
    });

    it("frees the space of discarded and zeroed bytes", async () => {
      await agents.publishOne("disk-1", { on: agents.two, name: "a" }, agents.one);
      const file = join(agents.folder, "host-2", "a");
      const client = await NbdClient.connect({ socketPath: join(agents.one.baseFolder, "exports", "disk-1.sock") });
      const data = randomBytes(SIZE_BYTES);
      await client.write(0, data);
      await client.flush();
      const { blocks } = statSync(file);
      await client.trim(0, RANGE_BYTES);
      await client.writeZeroes(2 * RANGE_BYTES, RANGE_BYTES);
      await client.flush();
      data.fill(0, 0, RANGE_BYTES).fill(0, 2 * RANGE_BYTES, 3 * RANGE_BYTES);
      expect((await client.read(0, SIZE_BYTES)).equals(data)).to.equal(true);
      expect(readFileSync(file).equals(data)).to.equal(true);
      expect((blocks - statSync(file).blocks) * 512).to.equal(2 * RANGE_BYTES);
      await client.disconnect();
    });
  });
