import { randomBytes } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { NbdClient } from "../nbd/client.js";
import { SIZE_BYTES, TwoAgents } from "../testing/two-agents.js";

const RANGE_BYTES = 65_536;

describe(`a device of another host with the node engine`, () => {
  const agents = TwoAgents.forAllTests({ remoteIoTimeoutMs: 60_000 });

  it("frees the space of discarded and zeroed bytes", async () => {
    await agents.publish("disk-1", agents.one, "a", [agents.two]);
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
